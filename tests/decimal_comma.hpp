#pragma once

#include <doctest/doctest.h>

#include <clocale>
#include <string>

namespace constrain::test {

/// A locale with a decimal comma, while the object lives. The test says so if the machine has none.
class decimal_comma {
public:
  decimal_comma() {
    for (auto const* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"})
      if (std::setlocale(LC_NUMERIC, name) != nullptr) return;
    MESSAGE("SKIPPED: no locale with a decimal comma was found");
  }
  decimal_comma(decimal_comma const&) = delete;
  decimal_comma& operator=(decimal_comma const&) = delete;
  ~decimal_comma() { std::setlocale(LC_NUMERIC, before_.c_str()); }

private:
  std::string before_ = std::setlocale(LC_NUMERIC, nullptr);
};

} // namespace constrain::test
