#pragma once

#include "constrain/base/error.hpp"

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string_view>

// Fuzz tests of a reader with arbitrary bytes. The reader must throw a `constrain::error`, or return a consistent
// result. Each file of this folder defines `try_reader` for one reader; replay.cpp or libFuzzer calls it.

namespace constrain::test {

void try_reader(std::span<std::byte const> bytes);

/// Ends the process where something accepted does not hold together.
inline void hold(bool condition) {
  if (!condition) std::abort();
}

inline std::string_view text_of(std::span<std::byte const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

} // namespace constrain::test

extern "C" int LLVMFuzzerTestOneInput(unsigned char const* data, std::size_t size) {
  try {
    constrain::test::try_reader(std::as_bytes(std::span(data, size)));
  } catch (constrain::error const& e) {
    std::string_view const said = e.what();
    constrain::test::hold(!said.empty() && said.find('\n') == said.npos);
  }
  return 0;
}
