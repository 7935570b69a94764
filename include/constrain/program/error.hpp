#pragma once

#include "constrain/program/variant.hpp"

#include <stdexcept>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What every run-time failure of the library throws. `what()` is one sentence:
/// what went wrong, where, and what to do instead.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace constrain
