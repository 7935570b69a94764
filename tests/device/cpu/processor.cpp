#include <constrain/device/cpu/processor.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ct = constrain;

TEST_CASE("the processor has what this code was compiled for, or it would not have come here") {
  constexpr std::string_view sets[] = {"sse2",   "avx",         "avx_fma",          "avx2",       "avx2_fma",
                                       "avx512", "avx512_bf16", "avx512_bf16_vnni", "avx512_fp16"};
  auto const of = [&](std::string_view name) { return std::find(std::begin(sets), std::end(sets), name); };
  std::string_view const here = ct::processor_instruction_set();
  CAPTURE(here);
  if (of(ct::instruction_set) == std::end(sets)) CHECK(here == ct::instruction_set);
  else CHECK((of(here) != std::end(sets) && of(here) >= of(ct::instruction_set)));
}
