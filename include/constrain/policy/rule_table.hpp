#pragma once

#include "constrain/policy/composition.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// All rules of the library as a table, for documentation and tests. Trainers do not need this header.
inline constexpr auto policy_rules = rules_of(composition_of<>());

} // namespace constrain
