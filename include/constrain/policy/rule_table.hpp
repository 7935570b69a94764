#pragma once

#include "constrain/policy/composition.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// All rules about the library's policies: the rules of each slot, then the rules between slots, in the order in which
/// they are checked. For documentation and tests; trainers do not need this header.
inline constexpr auto policy_rules = rules_of(composition_of<>());

} // namespace constrain
