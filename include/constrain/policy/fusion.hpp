#pragma once

#include "constrain/policy/rule.hpp"

#include <cstdint>
#include <limits>

/// Kernel fusion: one kernel computes several operations, so that intermediate values need not be stored.
namespace constrain::inline CONSTRAIN_VARIANT::fusion {

struct automatic;
struct all;
struct none;

} // namespace constrain::fusion

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of fusion; is_slot.hpp explains the members of a slot.
struct fusion {
  bool fuses = true;                // whether any operations are fused
  bool only_with_kernels = false;   // whether to fuse only into ops for which the device has a kernel
  std::int64_t smallest_logits = 0; // bytes; with smaller logits, the head and the loss do not become a loop over rows
  friend constexpr bool operator==(fusion const&, fusion const&) = default;

  template <class...> using otherwise = constrain::fusion::automatic;
  template <class policy> struct named { using fusion = policy; };
  using examples = policy_list<constrain::fusion::automatic, constrain::fusion::all, constrain::fusion::none>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_fusion, (said<fusion> const& f), f.given <= 1,
                 "policies: more than one fusion policy is given; keep one, for example fusion::automatic");
  using rules = rule_list<one_fusion>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::fusion {

/// The default. Fuses operations if the device has a kernel for the fused operation. If the logits of a micro-batch
/// take 256 MiB or more on one rank, the head (the linear layer that computes the logits) and the loss become a loop
/// over chunks of rows, under the conditions of `all`. The loop is slower than one call for all rows, but with 128 or
/// more rows, it stores at most an eighth of the logits at a time. The loop skips chunks without a valid label, as with
/// `all`.
struct automatic {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .only_with_kernels = true, .smallest_logits = 256 << 20};
};

/// Fuses every group of operations for which the library has a fused op. If the device has no kernel for the fused op,
/// the trainer does not compile. The CPU and CUDA devices have kernels for all fused ops of the library.
///
/// On every device, the head and the loss run in chunks of rows, whatever the size of the logits, if the head is a
/// `linear`, if all ops that read the logits declare that they work row by row (`op_info::layouts`) and draw no random
/// numbers, and if there are more than 16 rows. With 128 or more rows, training and evaluation then store at most an
/// eighth of the logits of a micro-batch at a time (`logit_rows`). If all these ops also ignore rows without a valid
/// label (`op_info::label_inputs`), as the library's cross-entropy does, and the only labels that they read are the
/// objective's first labels, one per row, these rows are moved to the end, and chunks that consist only of such rows
/// are skipped, except the first chunk. With launch::graph, all chunks run, because a captured graph always runs the
/// same kernels.
struct all {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .smallest_logits = 0};
};

/// Fuses nothing: every operation of the model runs separately.
struct none {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = false, .smallest_logits = std::numeric_limits<std::int64_t>::max()};
};

} // namespace constrain::fusion
