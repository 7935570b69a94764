#pragma once

#include <string>

#include "constrain/base/error.hpp"

namespace constrain::test {

/// What the `constrain::error` says that `action` throws; empty when it throws none.
template <class callable> std::string sentence(callable&& action) {
  try {
    action();
  } catch (error const& e) { return e.what(); }
  return {};
}

} // namespace constrain::test
