#pragma once

#include "constrain/policy/device.hpp"

#include <cstdint>
#include <limits>

/// Kernel fusion: several operations in one kernel, so that the values between them are never stored.
namespace constrain::inline CONSTRAIN_VARIANT::fusion {

struct automatic;
struct all;
struct none;

/// The default for a device.
template <class device> using standard = std::conditional_t<device::value.is_cuda, none, automatic>;

} // namespace constrain::fusion

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of fusion.
struct fusion {
  bool fuses = true;                // whether the pass `fuse` runs
  std::int64_t smallest_logits = 0; // bytes: smaller logits of a micro-batch are stored, not fused with their loss
  friend constexpr bool operator==(fusion const&, fusion const&) = default;

  template <class... list> using otherwise = constrain::fusion::standard<policy_in<device, list...>>;
  template <class policy> struct named { using fusion = policy; };
  using examples = policy_list<constrain::fusion::automatic, constrain::fusion::all, constrain::fusion::none>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_fusion, (said<fusion> const& f), f.given <= 1,
                 "trainer: two fusion policies are given; keep fusion::automatic or fusion::none");
  using rules = rule_list<one_fusion>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::fusion {

/// Fuses what becomes faster. The head is fused with its loss only if the logits of a micro-batch take 256 MiB or more:
/// a few rows of logits at a time save that memory, but make the head a tenth slower or more.
struct automatic {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .smallest_logits = 256 << 20};
};

/// Fuses all that the library has a kernel for: training and evaluation never store all logits of a micro-batch.
struct all {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .smallest_logits = 0};
};

/// Fuses nothing: every operation as the model writes it, for reference. The default on CUDA, which has no fused
/// kernels so far.
struct none {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = false, .smallest_logits = std::numeric_limits<std::int64_t>::max()};
};

} // namespace constrain::fusion
