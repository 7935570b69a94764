#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A list of policies, as a type.
template <class...> struct policy_list {};

} // namespace constrain
