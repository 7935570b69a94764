#pragma once

#include "constrain/policy/composition.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The rules of the library, for tables and tests: a trainer does not need them as a table.
inline constexpr auto policy_rules = rules_of(composition_of<>());

} // namespace constrain
