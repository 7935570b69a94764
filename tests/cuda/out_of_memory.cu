// A device that has not the memory of a trainer.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"

#include <string>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("a device that has not the memory says so") {
  using huge = ct::task<ct::gpt2{.layers = 96, .heads = 96, .width = 12288, .vocabulary = 50257, .context = 2048},
                        ct::causal_lm, ct::micro_batch{.sequences = 64}>;
  using trainer = ct::trainer<huge, device_policy>;
  static_assert(trainer::memory.peak > ct::gibibytes(1024));
  CHECK(sentence([] { trainer t; }).find("could not be allocated on CUDA device 0, which has") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess); // the program's next check of its own calls finds no error of ours
}
