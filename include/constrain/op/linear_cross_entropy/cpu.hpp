#pragma once

#include "constrain/device/cpu/gemm.hpp"
#include "constrain/op/accuracy/cpu.hpp"
#include "constrain/op/cross_entropy/cpu.hpp"
#include "constrain/op/linear_cross_entropy/linear_cross_entropy.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Computes the logits chunk by chunk of rows, each into `logits` [rows of a chunk, classes], and calls `f(first row,
/// number of rows)` after each chunk.
template <class stored, class function>
void for_chunks_of_logits(tensor<stored const> x, tensor<stored const> weight, tensor<stored> logits,
                          function const& f) {
  auto const width = x.features(), classes = logits.features(), rows = x.rows();
  for (std::int64_t begin = 0; begin < rows; begin += logits.rows()) {
    auto const count = std::min(logits.rows(), rows - begin);
    gemm(transpose::no, transpose::yes, count, classes, width, 1, x.data + begin * width, width, weight.data, width, 0,
         logits.data, classes);
    f(begin, count);
  }
}

} // namespace detail

template <> struct kernel<op::linear_cross_entropy, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<double> correct,
                  tensor<stored> logits, tensor<double> row_loss) {
    auto const classes = logits.features();
    std::int64_t hits = 0;
    detail::for_chunks_of_logits(x, weight, logits, [&](std::int64_t first, std::int64_t rows) {
      parallel_chunks(rows, 8, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          stored const* row_logits = logits.data + row * classes;
          row_loss[first + row] = cross_entropy_of(row_logits, labels[first + row], log_sum_exp(row_logits, classes));
        }
      });
      hits += count_correct(logits.data, labels.data + first, rows, classes);
    });
    correct[0] = static_cast<double>(hits);
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

template <> struct kernel<op::linear_cross_entropy_forward_backward, cpu> {
  using call_type = call_of<op::linear_cross_entropy_forward_backward>;

  template <class stored, class accumulate>
  static void run(call_type const& c, tensor<stored const> x, tensor<stored const> weight,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<stored> dx, tensor<accumulate> dweight, tensor<stored> logits, tensor<double> row_loss) {
    run(c, x, weight, labels, inverse_count, c.options.loss_gradient, loss, dx, dweight, logits, row_loss);
  }
  template <class stored, class accumulate>
  static void run(call_type const& c, tensor<stored const> x, tensor<stored const> weight,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count,
                  tensor<double const> loss_scale, tensor<double> loss, tensor<stored> dx, tensor<accumulate> dweight,
                  tensor<stored> logits, tensor<double> row_loss) {
    run(c, x, weight, labels, inverse_count, loss_scale[0], loss, dx, dweight, logits, row_loss);
  }

private:
  template <class stored, class accumulate>
  static void run(call_type const& c, tensor<stored const> x, tensor<stored const> weight,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, double loss_gradient,
                  tensor<double> loss, tensor<stored> dx, tensor<accumulate> dweight, tensor<stored> logits,
                  tensor<double> row_loss) {
    auto const width = x.features(), classes = logits.features();
    auto const scale = static_cast<arithmetic<stored>>(loss_gradient * inverse_count[0]);
    detail::for_chunks_of_logits(x, weight, logits, [&](std::int64_t first, std::int64_t rows) {
      parallel_chunks(rows, 8, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          stored* row_logits = logits.data + row * classes;
          auto const row_log_sum_exp = log_sum_exp(row_logits, classes);
          row_loss[first + row] = cross_entropy_of(row_logits, labels[first + row], row_log_sum_exp);
          cross_entropy_gradient_of(row_logits, classes, labels[first + row], row_log_sum_exp, scale, row_logits);
        }
      });
      gemm(transpose::no, transpose::no, rows, width, classes, 1, logits.data, classes, weight.data, width, 0,
           dx.data + first * width, width);
      gemm(transpose::yes, transpose::no, classes, width, rows, 1, logits.data, classes, x.data + first * width, width,
           first > 0 || c.add_to(2) ? 1 : 0, dweight.data, width);
    });
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

} // namespace constrain
