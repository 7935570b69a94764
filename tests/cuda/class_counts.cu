// The predictions of rows with logits of NaN and -infinity, as on the CPU.

#include <doctest/doctest.h>

#include "cuda/probe.cuh"
#include "op/call_kernel.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

TEST_CASE("NaN is never predicted") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), low = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t count = 6, classes = 3;
  std::vector<float> const values{nan, 3, 2, /**/ nan, nan, nan, /**/ 1,   nan, 2,
                                  nan, 1, 1, /**/ low, low, low, /**/ nan, low, nan};
  std::vector<std::int32_t> const labels{0, 1, 0, 1, 2, 1};
  array<float> const logits(shape(count, classes), values);
  array<std::int32_t> const all_labels(shape(count), labels);
  array<double> counts(shape(3, classes));
  array<std::int32_t> predictions(shape{count});
  call_kernel<ct::op::class_counts>(plain, logits.in(), all_labels.in(), counts.out(), predictions.out());
  CHECK(predictions.values() == std::vector<std::int32_t>{1, classes, 2, 1, 0, 1});

  shape const rows(count), matrix(count, classes), table(3, classes);
  probe p;
  auto* const on_device = p.room<double>(3 * classes);
  auto* const predicted = p.room<std::int32_t>(count);
  p.call_kernel<ct::op::class_counts>(ct::tensor<float const>{p.to_device(values), &matrix, count * classes},
                                      ct::tensor<std::int32_t const>{p.to_device(labels), &rows, count},
                                      ct::tensor<double>{on_device, &table, 3 * classes},
                                      ct::tensor<std::int32_t>{predicted, &rows, count});
  CHECK(p.from_device(predicted, count) == predictions.values());
  CHECK(p.from_device(on_device, 3 * classes) == counts.values());
}
