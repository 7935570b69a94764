#pragma once

#include <constrain/io/safetensors.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace constrain::test {

/// Checks that two safetensors files have the same tensors.
inline void check_same_tensors(std::string const& one, std::string const& other) {
  auto const ours = io::safetensors_file::open(one), expected = io::safetensors_file::open(other);
  CHECK(ours.tensors().size() == expected.tensors().size());
  for (auto const& of : expected.tensors()) {
    CAPTURE(of.name);
    auto const* const same = ours.find(of.name);
    REQUIRE(same != nullptr);
    CHECK(same->dtype == of.dtype);
    CHECK(same->shape == of.shape);
    CHECK(std::equal(same->bytes.begin(), same->bytes.end(), of.bytes.begin(), of.bytes.end()));
  }
}

} // namespace constrain::test
