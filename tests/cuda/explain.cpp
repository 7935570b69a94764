// What `explain` lists for a CUDA device only.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/root_mean_squares.hpp"

#include <string>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("explain names the dimensions that slow tensor cores down") {
  std::string const title = "dimensions that slow tensor cores down\n";
  auto const in_16_bits = ct::explanation<ct::trainer<small, ct::precision::bf16, device_policy>>();
  CHECK(in_16_bits.find(title) != std::string::npos);
  CHECK(in_16_bits.find("is not a multiple of 8 (next: ") != std::string::npos);
  auto const in_tf32 = ct::explanation<ct::trainer<small, ct::precision::tf32, device_policy>>();
  CHECK(in_tf32.find(title) != std::string::npos);
  CHECK(in_tf32.find("is not a multiple of 4 (next: ") != std::string::npos);
  CHECK(ct::explanation<ct::trainer<small, device_policy>>().find(title) == std::string::npos);
}
