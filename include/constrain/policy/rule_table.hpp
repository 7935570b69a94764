#pragma once

#include "constrain/policy/composition.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// All rules that say which of the library's policies go together, in the order in which they are checked; for
/// documentation and tests. Trainers do not need this header.
inline constexpr auto policy_rules = rules_of(composition_of<>());

} // namespace constrain
