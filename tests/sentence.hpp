#pragma once

#include <string>

#include "constrain/base/error.hpp"

namespace constrain::test {

/// The message of the `constrain::error` that `action` throws; empty if it throws none.
template <class callable> std::string sentence(callable&& action) {
  try {
    action();
  } catch (error const& e) { return e.what(); }
  return {};
}

} // namespace constrain::test
