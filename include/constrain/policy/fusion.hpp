#pragma once

#include "constrain/policy/device.hpp"

#include <cstdint>
#include <limits>

/// Whether neighbouring operations become one kernel, so that what lies between them is never stored.
namespace constrain::inline CONSTRAIN_VARIANT::fusion {

struct automatic;
struct all;
struct none;

/// The default of a device.
template <class device> using standard = std::conditional_t<device::value.is_cuda, none, automatic>;

} // namespace constrain::fusion

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// Whether neighbouring operations become one kernel.
struct fusion {
  bool fuses = true;
  std::int64_t smallest_logits = 0; // bytes; smaller logits of a micro-batch are stored whole
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

/// Where it pays. The head and its loss are one where whole logits of a micro-batch are 256 MiB or more: doing them a
/// few rows at a time saves that memory and costs a tenth of the head's time and more.
struct automatic {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .smallest_logits = 256 << 20};
};

/// Wherever the library has such a kernel: whole logits are never stored in training and evaluation.
struct all {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = true, .smallest_logits = 0};
};

/// Nowhere: each operation as the model writes it, for reference.
struct none {
  using slot = slot_of::fusion;
  static constexpr slot value{.fuses = false, .smallest_logits = std::numeric_limits<std::int64_t>::max()};
};

} // namespace constrain::fusion
