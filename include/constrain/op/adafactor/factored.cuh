#pragma once

#include "constrain/op/adafactor/rates.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The extents of a parameter, `matrices` matrices [rows, columns], and the sizes of the kernels' scratch memory, whose
/// arrays are all fp64. In this file, `real` is the type in which the weights are updated: fp32 for 16-bit weights.
struct adafactor_extents {
  std::int64_t matrices, rows, columns;

  /// The extents, from the tensors (or their extents) of the parameter, the row averages and the column averages.
  static constexpr adafactor_extents from_operands(auto const& weight, auto const& row, auto const& column) {
    auto const columns = weight.features(), matrices = column.count / columns;
    return {matrices, row.count / matrices, columns};
  }
  /// The number of parts, ranges of rows, in which the columns of each matrix are summed. The parts of all matrices are
  /// in one dimension of a grid, so there may be at most 65535 together; with more than 65535 matrices, the launch
  /// fails.
  constexpr std::int64_t parts() const {
    auto const max_parts = 65535 / matrices, preferred_parts = row_parts(rows);
    return max_parts < 1 ? 1 : max_parts < preferred_parts ? max_parts : preferred_parts;
  }
  constexpr std::int64_t all_rows() const { return matrices * rows; }
  /// Elements of adafactor_arrays::column_sums, [matrices, parts, columns].
  constexpr std::int64_t column_sums() const { return matrices * parts() * columns; }
  /// Bytes of the scratch memory: the column sums, one mean per matrix, three values per row, and the rates.
  constexpr std::int64_t scratch() const { return 8 * (column_sums() + matrices + 3 * all_rows() + 2); }
};

/// The arrays of adafactor_factored.
template <class real> struct adafactor_arrays {
  real const *gradient, *row, *column; // [matrices, rows, columns], [matrices, rows] and [matrices, columns]
  adafactor_elements<real> elements;
  real *new_row, *new_column; // [matrices, rows] and [matrices, columns]
  real* factor;               // [matrices, columns]: 1 / sqrt(new_column)
  double const* norm_and_scale;
  op::adafactor_step const* hyper;
  double *column_sums, *mean, *weight_squares, *update_squares, *row_factor; // scratch memory, see adafactor_extents
  adafactor_rates* rates;
};

/// The squares of n consecutive elements of the scaled gradient, for column_sums_kernel.
template <int n, class real> struct adafactor_squares {
  real const* gradient;
  double const* norm_and_scale;
  std::int64_t columns;
  __device__ stored_pack<n, real> load(std::int64_t row, std::int64_t column) const {
    return load_stored<n>(gradient + row * columns + column);
  }
  __device__ void operator()(stored_pack<n, real> const& from, std::int64_t, std::int64_t, double (&values)[n]) const {
    from.unpack(values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] *= norm_and_scale[1], values[j] *= values[j];
  }
};

} // namespace detail

// Computes the new average of each row, and the sum of the squares of the row's weights; one warp for each row of each
// matrix, n elements per access. `rows`: the number of rows of all matrices together.
template <int n, class real>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_rows_kernel(detail::adafactor_arrays<real> arrays, std::int64_t rows, std::int64_t columns) {
  auto const row = static_cast<std::int64_t>(blockIdx.x) * (cuda_threads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  double const scale = arrays.norm_and_scale[1];
  double gradient_squares = 0, weight_squares = 0, values[n];
  for (auto i = static_cast<std::int64_t>(threadIdx.x % 32) * n; i < columns; i += 32 * n) {
    load_pack(arrays.gradient + row * columns + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] *= scale, gradient_squares += values[j] * values[j];
    load_pack(arrays.elements.weight + row * columns + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) weight_squares += values[j] * values[j];
  }
  gradient_squares = warp_sum(gradient_squares), weight_squares = warp_sum(weight_squares);
  if (threadIdx.x % 32 != 0) return;
  arrays.new_row[row] =
      op::average_of_squares(*arrays.hyper, arrays.row[row], gradient_squares / static_cast<double>(columns));
  arrays.weight_squares[row] = weight_squares;
}

// Computes the new average of each column and its factor, from the column's partial sums, one per part. The first block
// of each matrix also computes the mean of the matrix's new row averages. blockIdx.y is the index of the matrix.
template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_columns_kernel(detail::adafactor_arrays<real> arrays, detail::adafactor_extents e, std::int64_t parts) {
  __shared__ block_reduction<double>::memory shared;
  auto const matrix = static_cast<std::int64_t>(blockIdx.y);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads;
  CT_KEEP_LOOP
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x; i < e.columns; i += stride) {
    double sum = 0;
    for (std::int64_t part = 0; part < parts; ++part)
      sum += arrays.column_sums[(matrix * parts + part) * e.columns + i];
    auto const index = matrix * e.columns + i;
    real const average = op::average_of_squares(*arrays.hyper, arrays.column[index], sum / static_cast<double>(e.rows));
    arrays.new_column[index] = average;
    arrays.factor[index] = 1 / math::sqrt(average);
  }
  if (blockIdx.x != 0) return;
  double sum = 0;
  for (auto row = static_cast<std::int64_t>(threadIdx.x); row < e.rows; row += cuda_threads)
    sum += static_cast<double>(arrays.new_row[matrix * e.rows + row]);
  sum = block_reduction<double>{shared}.sum(sum);
  if (threadIdx.x == 0) arrays.mean[matrix] = sum / static_cast<double>(e.rows);
}

// Computes the factor of each row of the update, and the sum of the squares of the update's elements in the row, before
// clipping. One warp per row, n elements per access; blockIdx.y is the index of the matrix.
template <int n, class real>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_squares_kernel(detail::adafactor_arrays<real> arrays, std::int64_t rows, std::int64_t columns) {
  auto const row_in_matrix = static_cast<std::int64_t>(blockIdx.x) * (cuda_threads / 32) + threadIdx.x / 32;
  if (row_in_matrix >= rows) return;
  auto const row = blockIdx.y * rows + row_in_matrix;
  double sum = 0, g[n], factor[n];
  for (auto i = static_cast<std::int64_t>(threadIdx.x % 32) * n; i < columns; i += 32 * n) {
    load_pack(arrays.gradient + row * columns + i, g), load_pack(arrays.factor + blockIdx.y * columns + i, factor);
    CT_UNROLL
    for (int j = 0; j < n; ++j) g[j] *= factor[j], sum += g[j] * g[j];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 != 0) return;
  double const row_factor =
      arrays.norm_and_scale[1] / math::sqrt(static_cast<double>(arrays.new_row[row]) / arrays.mean[blockIdx.y]);
  arrays.row_factor[row] = row_factor;
  arrays.update_squares[row] = row_factor * row_factor * sum;
}

// Computes the new weights and, if `first_moment`, the new first moment. One warp per row, n elements per access;
// blockIdx.y is the index of the matrix.
template <int n, bool first_moment, class real>
static __global__ void __launch_bounds__(cuda_threads, 2)
    adafactor_factored_kernel(detail::adafactor_arrays<real> arrays, std::int64_t rows, std::int64_t columns) {
  auto const row_in_matrix = static_cast<std::int64_t>(blockIdx.x) * (cuda_threads / 32) + threadIdx.x / 32;
  if (row_in_matrix >= rows) return;
  auto const row = blockIdx.y * rows + row_in_matrix;
  auto const rates = *arrays.rates;
  auto const row_factor = static_cast<real>(arrays.row_factor[row] * rates.clipped_rate);
  real g[n], factor[n];
  for (auto i = static_cast<std::int64_t>(threadIdx.x % 32) * n; i < columns; i += 32 * n) {
    load_pack(arrays.gradient + row * columns + i, g), load_pack(arrays.factor + blockIdx.y * columns + i, factor);
    CT_UNROLL
    for (int j = 0; j < n; ++j) g[j] = g[j] * factor[j] * row_factor;
    arrays.elements.template store<first_moment>(row * columns + i, *arrays.hyper, rates.rate, g);
  }
}

namespace detail {

/// Launches the six kernels of adafactor_factored. With packs, n is the number of elements in 16 bytes, otherwise 1.
/// Throws `error` if a launch fails.
template <int n, bool first_moment, class real>
void run_adafactor_factored(cuda_context& context, adafactor_extents const& e, adafactor_arrays<real> const& arrays) {
  constexpr int warps = cuda_threads / 32;
  auto const blocks = [](std::int64_t count, std::int64_t per_block) {
    return static_cast<unsigned>((count + per_block - 1) / per_block);
  };
  auto const matrices = static_cast<unsigned>(e.matrices), parts = static_cast<unsigned>(e.matrices * e.parts());
  dim3 const row_grid(blocks(e.rows, warps), matrices);
  cuda_launch(context, dim3(blocks(e.all_rows(), warps)), cuda_threads, adafactor_rows_kernel<n, real>, arrays,
              e.all_rows(), e.columns);
  // One launch sums the columns of all matrices. Each matrix has the same number of parts, so no part has rows of two
  // matrices.
  cuda_launch(context, dim3(blocks(e.columns, 32 * n), parts), cuda_threads,
              column_sums_kernel<n, double, adafactor_squares<n, real>>,
              adafactor_squares<n, real>{arrays.gradient, arrays.norm_and_scale, e.columns},
              row_partition(e.all_rows(), e.matrices * e.parts()), e.columns, arrays.column_sums);
  cuda_launch(context, dim3(blocks_for(e.columns, cuda_threads), matrices), cuda_threads,
              adafactor_columns_kernel<real>, arrays, e, e.parts());
  cuda_launch(context, row_grid, cuda_threads, adafactor_squares_kernel<n, real>, arrays, e.rows, e.columns);
  cuda_launch(context, dim3(1), cuda_threads, adafactor_rates_kernel<double>, arrays.hyper, arrays.weight_squares,
              arrays.update_squares, e.all_rows(), e.all_rows() * e.columns, arrays.rates);
  cuda_launch(context, row_grid, cuda_threads, adafactor_factored_kernel<n, first_moment, real>, arrays, e.rows,
              e.columns);
}

} // namespace detail

/// Throws `error` if a launch fails, for example for a parameter with more than 65535 matrices.
template <class optimizer, class architecture> struct kernel<op::adafactor_factored<optimizer>, cuda<architecture>> {
  using call_type = call_of<op::adafactor_factored<optimizer>>;

  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    return {.scratch = detail::adafactor_extents::from_operands(in[3], in[4], in[5]).scratch(), .launches = 6};
  }
  template <class real>
  static void run(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<real const> weight, tensor<real const> row,
                  tensor<real const> column, tensor<real> new_weight, tensor<real> new_row, tensor<real> new_column,
                  tensor<real> factor) {
    step<false>(c, gradient, norm_and_scale, bytes, row, column, {weight.data, nullptr, new_weight.data, nullptr},
                new_row, new_column, factor);
  }
  template <class real>
  static void run(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<real const> weight, tensor<real const> row,
                  tensor<real const> column, tensor<real const> average, tensor<real> new_weight, tensor<real> new_row,
                  tensor<real> new_column, tensor<real> factor, tensor<real> new_average) {
    step<true>(c, gradient, norm_and_scale, bytes, row, column,
               {weight.data, average.data, new_weight.data, new_average.data}, new_row, new_column, factor);
  }

private:
  template <bool first_moment, class real>
  static void step(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                   tensor<std::uint8_t const> bytes, tensor<real const> row, tensor<real const> column,
                   detail::adafactor_elements<real> const& elements, tensor<real> new_row, tensor<real> new_column,
                   tensor<real> factor) {
    auto const e = detail::adafactor_extents::from_operands(gradient, row, column);
    auto* const sums = c.template scratch_as<double>();
    auto* const mean = sums + e.column_sums();
    auto* const weight_squares = mean + e.matrices;
    auto* const update_squares = weight_squares + e.all_rows();
    auto* const row_factor = update_squares + e.all_rows();
    detail::adafactor_arrays<real> const arrays{gradient.data,
                                                row.data,
                                                column.data,
                                                elements,
                                                new_row.data,
                                                new_column.data,
                                                factor.data,
                                                norm_and_scale.data,
                                                detail::adafactor_step_in<optimizer, real>(bytes, c.options.decays),
                                                sums,
                                                mean,
                                                weight_squares,
                                                update_squares,
                                                row_factor,
                                                reinterpret_cast<detail::adafactor_rates*>(row_factor + e.all_rows())};
    auto& context = *c.parameters.context;
    if (takes_packs<pack_of<real>>(e.columns, gradient.data, factor.data, elements.weight, elements.average,
                                   elements.new_weight, elements.new_average))
      detail::run_adafactor_factored<pack_of<real>, first_moment>(context, e, arrays);
    else detail::run_adafactor_factored<1, first_moment>(context, e, arrays);
  }
};

} // namespace constrain
