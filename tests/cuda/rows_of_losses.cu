// The loss of rows with logits of -infinity, and of rows of any length and distance, as on the CPU.

#include <doctest/doctest.h>

#include "cuda/probe.cuh"
#include "op/call_kernel.hpp"
#include "relative_error.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

struct losses {
  std::vector<double> loss, row_loss;
  std::vector<float> dlogits;
};
constexpr std::int64_t row_count = 5;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Calls the kernel of cross_entropy_and_gradient in place, on the CPU and on the device. The rows begin `stride`
/// elements apart, and NaN is between them.
std::vector<losses> on_both(std::vector<float> const& logits, std::int64_t classes, std::int64_t stride) {
  shape const rows(row_count), all(row_count, classes), scalar{};
  std::vector<float> in_rows(static_cast<std::size_t>(row_count * stride), static_cast<float>(nan));
  for (std::int64_t i = 0; i < row_count * classes; ++i)
    in_rows[static_cast<std::size_t>(i / classes * stride + i % classes)] = logits[static_cast<std::size_t>(i)];
  std::vector<std::int32_t> const labels{static_cast<std::int32_t>(classes - 1), 1 % static_cast<std::int32_t>(classes),
                                         ct::ignored_label, static_cast<std::int32_t>(classes / 2), 0};
  std::vector<double> const numbers{0.25, 2.0};
  std::vector<losses> found(2);
  auto const count = row_count * classes;
  auto const take = [&](losses& to, std::vector<float> const& x) {
    for (std::int64_t i = 0; i < count; ++i)
      to.dlogits.push_back(x[static_cast<std::size_t>(i / classes * stride + i % classes)]);
  };
  found[0].loss = {0}, found[0].row_loss.assign(row_count, 0);
  auto over = in_rows;
  call_kernel<ct::op::cross_entropy_and_gradient>(
      plain, ct::tensor<float const>{over.data(), &all, count, stride},
      ct::tensor<std::int32_t const>{labels.data(), &rows, row_count},
      ct::tensor<double const>{numbers.data(), &scalar, 1}, ct::tensor<double const>{numbers.data() + 1, &scalar, 1},
      ct::tensor<float>{over.data(), &all, count, stride}, ct::tensor<double>{found[0].loss.data(), &scalar, 1},
      ct::tensor<double>{found[0].row_loss.data(), &rows, row_count});
  take(found[0], over);
  probe p;
  auto* const x = p.to_device(in_rows);
  auto* const device_labels = p.to_device(labels);
  auto* const device_numbers = p.to_device(numbers);
  auto* const loss = p.room<double>(1);
  auto* const row_loss = p.room<double>(row_count);
  p.call_kernel<ct::op::cross_entropy_and_gradient>(
      ct::tensor<float const>{x, &all, count, stride}, ct::tensor<std::int32_t const>{device_labels, &rows, row_count},
      ct::tensor<double const>{device_numbers, &scalar, 1}, ct::tensor<double const>{device_numbers + 1, &scalar, 1},
      ct::tensor<float>{x, &all, count, stride}, ct::tensor<double>{loss, &scalar, 1},
      ct::tensor<double>{row_loss, &rows, row_count});
  take(found[1], p.from_device(x, in_rows.size()));
  found[1].loss = p.from_device(loss, 1), found[1].row_loss = p.from_device(row_loss, row_count);
  return found;
}

} // namespace

TEST_CASE("the loss of rows of any length, with and without classes of probability 0") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t const classes : {2, 3, 37, 40, 1027, 2048})
    for (std::int64_t const gap : {0, 1, 8})
      for (std::int64_t const masked : {0, 1, 4, 33}) {
        CAPTURE(classes);
        CAPTURE(gap);
        CAPTURE(masked);
        auto logits = array<float>::random(shape(row_count, classes), 1, 3).values();
        for (std::int64_t i = 0; i < row_count * classes; ++i) // only the classes that are no label
          if (auto const k = i % classes; k > 1 && k < std::min(masked + 2, classes / 2))
            logits[static_cast<std::size_t>(i)] = -infinity;
        if (masked > 0 && classes > 4)
          for (std::int64_t row = 0; row < 4; ++row) // class 0 is the label of the last row only
            logits[static_cast<std::size_t>(row * classes)] = -infinity;
        auto const found = on_both(logits, classes, (classes + gap + 3) / 4 * 4 + (gap == 1 ? 1 : 0));
        CHECK(relative_error(found[1].dlogits, {found[0].dlogits.begin(), found[0].dlogits.end()}) <= 1e-6);
        for (std::size_t row = 0; row < row_count; ++row)
          CHECK(found[1].row_loss[row] == doctest::Approx(found[0].row_loss[row]).epsilon(1e-6));
        CHECK(found[1].loss[0] == doctest::Approx(found[0].loss[0]).epsilon(1e-6));
        CHECK(found[0].loss[0] > 0); // and not NaN
      }
}
