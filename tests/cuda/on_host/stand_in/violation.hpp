#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace on_host {

/// A broken contract of CUDA's ends the program, after one sentence: the call, what is wrong, what the contract says.
/// An error that a sound program meets, such as too little memory, is a status instead.
[[noreturn]] inline void violated(char const* call, std::string const& what, char const* contract) {
  static char line[1024];
  int const bytes = std::snprintf(line, sizeof line, "%s: %s; %s\n", call, what.c_str(), contract);
  std::fflush(nullptr);
  [[maybe_unused]] auto const written = ::write(2, line, static_cast<std::size_t>(bytes < 1023 ? bytes : 1023));
  std::abort();
}

/// A string made of strings and numbers.
template <class... parts> std::string text(parts const&... p) {
  std::ostringstream all;
  (all << ... << p);
  return all.str();
}

} // namespace on_host
