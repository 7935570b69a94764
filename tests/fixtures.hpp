#pragma once

#include <constrain/io/safetensors.hpp>
#include <doctest/doctest.h>

#include "relative_error.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::test {

/// A file of tests/fixtures: what PyTorch computed (see its README.md).
class fixture {
  std::string path;
  io::safetensors_file file;

  io::tensor const& find(std::string_view name) const {
    auto const* found = file.find(name);
    if (found == nullptr) throw error("fixture: no '" + std::string(name) + "' in '" + path + "'");
    return *found;
  }

  // The bytes may have any alignment, so they are copied element by element.
  template <class stored, class function> static auto read(io::tensor const& t, function const& convert) {
    std::vector<decltype(convert(stored{}))> values(t.bytes.size() / sizeof(stored));
    for (std::size_t i = 0; i < values.size(); ++i) {
      stored element;
      std::memcpy(&element, t.bytes.data() + i * sizeof(stored), sizeof element);
      values[i] = convert(element);
    }
    return values;
  }

public:
  explicit fixture(std::string const& name)
      : path(std::string(CONSTRAIN_FIXTURES) + "/" + name), file(io::safetensors_file::open(path)) {}

  bool has(std::string_view name) const { return file.find(name) != nullptr; }
  std::vector<std::int64_t> shape(std::string_view name) const { return find(name).shape; }

  /// A tensor of any real dtype (or of I32) in double, which holds each of them exactly.
  std::vector<double> reals(std::string_view name) const {
    auto const& t = find(name);
    if (t.dtype == "F64") return read<double>(t, [](double x) { return x; });
    if (t.dtype == "F32") return read<float>(t, [](float x) { return static_cast<double>(x); });
    if (t.dtype == "I32") return read<std::int32_t>(t, [](std::int32_t x) { return static_cast<double>(x); });
    if (t.dtype == "BF16") // the upper half of a float
      return read<std::uint16_t>(
          t, [](std::uint16_t x) { return static_cast<double>(std::bit_cast<float>(std::uint32_t{x} << 16)); });
    throw error("fixture: '" + t.name + "' in '" + path + "' is " + t.dtype + "; read F64, F32, BF16 or I32");
  }

  std::vector<std::int32_t> integers(std::string_view name) const {
    auto const& t = find(name);
    if (t.dtype != "I32") throw error("fixture: '" + t.name + "' in '" + path + "' is " + t.dtype + ", not I32");
    return read<std::int32_t>(t, [](std::int32_t x) { return x; });
  }
};

} // namespace constrain::test
