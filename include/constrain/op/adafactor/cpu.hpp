#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/adafactor/adafactor.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Elements per task of a thread: enough that starting the task takes little time compared with the work.
inline constexpr std::int64_t adafactor_chunk = 4096;

/// The sum of `term(begin, end)` over the chunks [0, chunk), [chunk, 2 * chunk), ... of [0, count). Several threads
/// call `term`, but the terms are added in the order of the chunks for any number of threads.
template <class function> double sum_of_chunks(std::int64_t count, std::int64_t chunk, function const& term) {
  constexpr std::int64_t capacity = 1024; // size of `terms`, which is on the stack: kernels must not allocate
  double terms[capacity];
  double total = 0;
  for (std::int64_t first = 0; first < count; first += capacity * chunk) {
    auto const n = std::min(count - first, capacity * chunk);
    parallel_chunks(n, chunk, [&](std::int64_t begin, std::int64_t end) {
      terms[begin / chunk] = term(first + begin, first + end);
    });
    for (std::int64_t k = 0; k * chunk < n; ++k) total += terms[k];
  }
  return total;
}

/// The root mean square of `term(i)` over [0, count); count >= 1. Several threads call `term`.
template <class function> double root_mean_square(std::int64_t count, function const& term) {
  return math::sqrt(sum_of_chunks(count, adafactor_chunk,
                                  [&](std::int64_t begin, std::int64_t end) {
                                    return ordered_sum<double>(begin, end, [=](std::int64_t i) {
                                      double const x = term(i);
                                      return x * x;
                                    });
                                  }) /
                    static_cast<double>(count));
}

/// The step size of a parameter: the rate or, with `scale_parameter`, the rate times the larger of epsilon2 and the
/// parameter's root mean square.
template <class real> double adafactor_rate(op::adafactor_step const& h, tensor<real const> weight) {
  if (h.scale_parameter == 0) return h.rate;
  auto const* const w = weight.data;
  return h.rate * std::max(h.epsilon2, root_mean_square(weight.count, [=](std::int64_t i) { return double(w[i]); }));
}

/// The factor that limits the root mean square of an update, `update_rms`, to `clip_threshold`.
inline double adafactor_clip(op::adafactor_step const& h, double update_rms) {
  return 1 / std::max(1.0, update_rms / h.clip_threshold);
}

/// Rows of a matrix [rows, columns] per task of a thread.
inline std::int64_t rows_per_chunk(std::int64_t columns) {
  return std::max<std::int64_t>(1, adafactor_chunk / columns);
}

/// Updates one matrix in three stages, in this order: `compute_averages`, `sum_of_squares` and `update`.
template <class real> struct adafactor_matrix {
  real const* gradient;       // [rows, columns]
  real const *row, *column;   // current averages, [rows] and [columns]
  real *new_row, *new_column; // new averages, [rows] and [columns]
  real* factor;               // [columns]: 1 / sqrt(new_column)
  std::int64_t rows, columns; // extents of the matrix
  double scale;               // multiplies the gradient

  /// Computes the new row and column averages, and `factor`. The elements of a column are added in row order.
  void compute_averages(op::adafactor_step const& h) const {
    auto const m = *this;
    parallel_chunks(rows, rows_per_chunk(columns), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        double const sum =
            ordered_sum<double>(0, m.columns, [=](std::int64_t i) { return m.square(r * m.columns + i); });
        m.new_row[r] = op::average_of_squares(h, m.row[r], sum / static_cast<double>(m.columns));
      }
    });
    constexpr std::int64_t width = 64; // columns per chunk: their sums stay in the L1 cache
    parallel_chunks(columns, width, [=](std::int64_t begin, std::int64_t end) {
      double sum[width]{};
      for (std::int64_t r = 0; r < m.rows; ++r) {
        auto const first = r * m.columns + begin;
        CONSTRAIN_SIMD
        for (std::int64_t i = 0; i < end - begin; ++i) sum[i] += m.square(first + i);
      }
      for (std::int64_t i = begin; i < end; ++i) {
        m.new_column[i] = op::average_of_squares(h, m.column[i], sum[i - begin] / static_cast<double>(m.rows));
        m.factor[i] = 1 / math::sqrt(m.new_column[i]);
      }
    });
  }

  /// The mean of the new row averages.
  double mean() const {
    auto const* const r = new_row;
    return ordered_sum<double>(0, rows, [=](std::int64_t i) { return static_cast<double>(r[i]); }) /
           static_cast<double>(rows);
  }
  /// The factor for row r: the update of the row is gradient * `factor` * this factor. `mean`: the result of `mean()`.
  double row_factor(std::int64_t r, double mean) const {
    return scale / math::sqrt(static_cast<double>(new_row[r]) / mean);
  }
  /// The sum of the squares of the update's elements, before the multiplication by `clipped_rate` in `update`.
  double sum_of_squares() const {
    double const mean_of_rows = mean();
    return sum_of_chunks(rows, rows_per_chunk(columns), [=, m = *this](std::int64_t begin, std::int64_t end) {
      double total = 0;
      for (std::int64_t r = begin; r < end; ++r) {
        auto const* const g = m.gradient + r * m.columns;
        auto const* const f = m.factor;
        double const sum = ordered_sum<double>(0, m.columns, [=](std::int64_t i) {
          double const x = static_cast<double>(g[i]) * static_cast<double>(f[i]);
          return x * x;
        });
        double const row_scale = m.row_factor(r, mean_of_rows);
        total += row_scale * row_scale * sum;
      }
      return total;
    });
  }
  /// Calls `store(index, update)` for each element of the matrix, with the element's update times `clipped_rate`, which
  /// is the step size times the factor of `adafactor_clip`. Several threads call `store`.
  template <class function> void update(double clipped_rate, function const& store) const {
    double const mean_of_rows = mean();
    parallel_chunks(rows, rows_per_chunk(columns), [=, m = *this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        auto const* const g = m.gradient + r * m.columns;
        auto const* const f = m.factor;
        auto const row_scale = static_cast<real>(m.row_factor(r, mean_of_rows) * clipped_rate);
        simd_loop(m.columns, [=](std::int64_t i) { store(r * m.columns + i, g[i] * f[i] * row_scale); });
      }
    });
  }

private:
  double square(std::int64_t i) const {
    double const g = static_cast<double>(gradient[i]) * scale;
    return g * g;
  }
};

/// Stores a new weight: the decayed weight minus its update. With a first moment, also stores the moving average of the
/// updates, and subtracts this average instead of the update.
template <class real, bool first_moment> struct adafactor_store {
  real const *weight, *average;
  real *new_weight, *new_average;
  real keep, beta1; // keep: 1 - rate * weight_decay

  /// Stores new weight i. `update`: the element's update times the step size and the factor of `adafactor_clip`.
  void operator()(std::int64_t i, real update) const {
    if constexpr (first_moment) {
      update = beta1 * average[i] + (1 - beta1) * update;
      new_average[i] = update;
    }
    new_weight[i] = weight[i] * keep - update;
  }
};

/// The `adafactor_store` of a parameter with step size `rate`.
template <bool first_moment, class real>
adafactor_store<real, first_moment> adafactor_store_of(op::adafactor_step const& h, double rate,
                                                       tensor<real const> weight, tensor<real const> average,
                                                       tensor<real> new_weight, tensor<real> new_average) {
  return {weight.data,
          average.data,
          new_weight.data,
          new_average.data,
          static_cast<real>(1 - rate * h.weight_decay),
          static_cast<real>(h.beta1)};
}

} // namespace detail

template <class optimizer> struct kernel<op::adafactor_factored<optimizer>, cpu> {
  template <class real>
  static void run(call_of<op::adafactor_factored<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                  tensor<real const> row, tensor<real const> column, tensor<real> new_weight, tensor<real> new_row,
                  tensor<real> new_column, tensor<real> factor) {
    step<false>(c, gradient, norm_and_scale, bytes, weight, row, column, tensor<real const>(), new_weight, new_row,
                new_column, factor, tensor<real>());
  }
  template <class real>
  static void run(call_of<op::adafactor_factored<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                  tensor<real const> row, tensor<real const> column, tensor<real const> average,
                  tensor<real> new_weight, tensor<real> new_row, tensor<real> new_column, tensor<real> factor,
                  tensor<real> new_average) {
    step<true>(c, gradient, norm_and_scale, bytes, weight, row, column, average, new_weight, new_row, new_column,
               factor, new_average);
  }

private:
  template <bool first_moment, class real>
  static void step(call_of<op::adafactor_factored<optimizer>> const& c, tensor<real const> gradient,
                   tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                   tensor<real const> row, tensor<real const> column, tensor<real const> average,
                   tensor<real> new_weight, tensor<real> new_row, tensor<real> new_column, tensor<real> factor,
                   tensor<real> new_average) {
    auto const& h = op::hyperparameters_of<optimizer, real>(bytes).choose(c.options.decays);
    auto const columns = weight.features(), matrices = column.count / columns, rows = row.count / matrices;
    auto const matrix = [=](std::int64_t k) -> detail::adafactor_matrix<real> {
      return {gradient.data + k * rows * columns,
              row.data + k * rows,
              column.data + k * columns,
              new_row.data + k * rows,
              new_column.data + k * columns,
              factor.data + k * columns,
              rows,
              columns,
              norm_and_scale[1]};
    };
    double squares = 0;
    for (std::int64_t k = 0; k < matrices; ++k) {
      matrix(k).compute_averages(h);
      squares += matrix(k).sum_of_squares();
    }
    double const rate = detail::adafactor_rate(h, weight);
    double const clipped_rate =
        rate * detail::adafactor_clip(h, math::sqrt(squares / static_cast<double>(weight.count)));
    auto const store = detail::adafactor_store_of<first_moment>(h, rate, weight, average, new_weight, new_average);
    for (std::int64_t k = 0; k < matrices; ++k)
      matrix(k).update(clipped_rate, [=](std::int64_t i, real update) { store(k * rows * columns + i, update); });
  }
};

template <class optimizer> struct kernel<op::adafactor_unfactored<optimizer>, cpu> {
  template <class real>
  static void run(call_of<op::adafactor_unfactored<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                  tensor<real const> squares, tensor<real> new_weight, tensor<real> new_squares) {
    step<false>(c, gradient, norm_and_scale, bytes, weight, squares, tensor<real const>(), new_weight, new_squares,
                tensor<real>());
  }
  template <class real>
  static void run(call_of<op::adafactor_unfactored<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                  tensor<real const> squares, tensor<real const> average, tensor<real> new_weight,
                  tensor<real> new_squares, tensor<real> new_average) {
    step<true>(c, gradient, norm_and_scale, bytes, weight, squares, average, new_weight, new_squares, new_average);
  }

private:
  template <bool first_moment, class real>
  static void step(call_of<op::adafactor_unfactored<optimizer>> const& c, tensor<real const> gradient,
                   tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                   tensor<real const> squares, tensor<real const> average, tensor<real> new_weight,
                   tensor<real> new_squares, tensor<real> new_average) {
    auto const& h = op::hyperparameters_of<optimizer, real>(bytes).choose(c.options.decays);
    auto const scale = static_cast<real>(norm_and_scale[1]), epsilon = static_cast<real>(h.epsilon1);
    auto const beta2 = static_cast<real>(h.beta2);
    for_elements(weight.count, [=](std::int64_t i) {
      real const g = gradient[i] * scale;
      new_squares[i] = beta2 * squares[i] + (1 - beta2) * (op::limited_square(g) + epsilon);
    });
    auto const direction = [=](std::int64_t i) { return gradient[i] * scale / math::sqrt(new_squares[i]); };
    double const rms =
        detail::root_mean_square(weight.count, [=](std::int64_t i) { return static_cast<double>(direction(i)); });
    double const rate = detail::adafactor_rate(h, weight);
    auto const clipped_rate = static_cast<real>(rate * detail::adafactor_clip(h, rms));
    auto const store = detail::adafactor_store_of<first_moment>(h, rate, weight, average, new_weight, new_average);
    for_elements(weight.count, [=](std::int64_t i) { store(i, direction(i) * clipped_rate); });
  }
};

} // namespace constrain
