#pragma once

#include "constrain/device/math.hpp"
#include "constrain/op/add_layer_norm/add_layer_norm.hpp"
#include "constrain/op/layer_norm/held_gradient.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Rows that a block of layer_norm_gradient_kernel or rms_norm_gradient_kernel handles at a time.
inline constexpr int norm_group = 4 * norm_warps;

/// The arrays of layer_norm: a, b, sum and y [rows, width], weight and bias [width], mean and rstd [rows]. With an
/// addend, the kernel stores a plus the addend in `sum`, and normalizes `sum`. Without an addend, `b` and `sum` are
/// null, and the kernel normalizes a.
template <class stored, class accumulate> struct layer_norm_arrays {
  stored const *a, *b;
  accumulate const *weight, *bias;
  stored *sum, *y;
  accumulate *mean, *rstd;
};
/// The addend of layer_norm_kernel: none (`no_addend`), b (`plain_addend`), or b after dropout (`dropout_argument`). A
/// `dropout_argument` has the members of `plain_addend`, except that `apply` is a member of the object that its
/// `thread_state` returns.
struct no_addend {};
struct plain_addend {
  /// The object that one thread applies to its elements of b.
  __device__ plain_addend thread_state() const { return *this; }
  /// apply(i, values): replaces `values`, the n consecutive elements that begin at element i of b, with the elements to
  /// add; here, these are the same.
  template <int n, class real> __device__ void apply(std::int64_t, real (&)[n]) const {}
  /// Whether a kernel may handle the elements in packs of n.
  template <int n> bool takes_packs() const { return true; }
};

/// A row that a warp normalizes, in packs of n elements: in registers, `packs_per_lane` packs per lane, or, if
/// `packs_per_lane` is 0, in memory.
template <int n, int packs_per_lane, class addend, class stored, class accumulate> struct input_row {
  static constexpr bool adds = !std::is_same_v<addend, no_addend>;

  held_row<n, packs_per_lane, stored> x;

  /// Loads row number `row` of `arrays.a`. With an addend, adds the addend to the row, and stores the result, rounded,
  /// in `arrays.sum`. Adds this lane's elements of the row to `row_sum`.
  __device__ void load(layer_norm_arrays<stored, accumulate> const& arrays, addend const& argument, std::int64_t row,
                       int width, accumulate& row_sum) {
    x.load(arrays.a + row * width, width);
    if constexpr (adds) {
      held_row<n, packs_per_lane, stored> b;
      b.load(arrays.b + row * width, width);
      auto const thread_addend = argument.thread_state();
      accumulate values[n], addends[n];
      CT_UNROLL
      for (int k = 0; k < packs_per_lane; ++k) {
        if (x.column(k) >= width) continue;
        x.pack[k].unpack(values), b.pack[k].unpack(addends);
        thread_addend.apply(row * width + x.column(k), addends);
        CT_UNROLL
        for (int j = 0; j < n; ++j) values[j] += addends[j];
        x.pack[k] = rounded_pack<stored>(values);
        store_stored(x.pack[k], arrays.sum + row * width + x.column(k));
      }
    }
    x.for_each_pack(width, [&](int, accumulate const(&values)[n]) {
      CT_UNROLL
      for (int j = 0; j < n; ++j) row_sum += values[j];
    });
  }
  /// Calls f(column, values) for this lane's packs: `column` is the first column of a pack, `values` has its n
  /// elements.
  template <class function> __device__ void for_each_pack(int width, function const& f) const {
    x.for_each_pack(width, f);
  }
};
template <int n, class addend, class stored, class accumulate> struct input_row<n, 0, addend, stored, accumulate> {
  static constexpr bool adds = !std::is_same_v<addend, no_addend>;

  held_row<n, 0, stored> x;

  __device__ void load(layer_norm_arrays<stored, accumulate> const& arrays, addend const& argument, std::int64_t row,
                       int width, accumulate& row_sum) {
    x.load((adds ? arrays.sum : arrays.a) + row * width, width);
    if constexpr (adds) {
      accumulate values[n], addends[n];
      auto const thread_addend = argument.thread_state();
      for (int i = static_cast<int>(threadIdx.x % 32) * n; i < width; i += 32 * n) {
        load_pack(arrays.a + row * width + i, values), load_pack(arrays.b + row * width + i, addends);
        thread_addend.apply(row * width + i, addends);
        CT_UNROLL
        for (int j = 0; j < n; ++j) row_sum += values[j] = stored(values[j] + addends[j]);
        store_pack(values, arrays.sum + row * width + i);
      }
    } else
      for_each_pack(width, [&](int, accumulate const(&loaded)[n]) {
        CT_UNROLL
        for (int j = 0; j < n; ++j) row_sum += loaded[j];
      });
  }
  template <class function> __device__ void for_each_pack(int width, function const& f) const {
    x.for_each_pack(width, f);
  }
};

/// Adds the contributions of the first `count` rows of dy and x to a block's partial sums of dweight and dbias, both
/// [width]; if `starts`, overwrites the sums instead. mean, rstd [count]: of these rows. n: columns per access. All
/// threads of the block must call this function.
template <int n, class stored, class accumulate>
__device__ void add_norm_columns(stored const* dy, stored const* x, accumulate const* mean, accumulate const* rstd,
                                 int count, std::int64_t width, bool starts, accumulate* dweight, accumulate* dbias) {
  for (auto i = static_cast<std::int64_t>(threadIdx.x) * n; i < width; i += cuda_threads * n) {
    accumulate weight_sums[n]{}, bias_sums[n]{}, gradient[n], input[n];
    if (!starts) load_pack(dweight + i, weight_sums), load_pack(dbias + i, bias_sums);
    for (int row = 0; row < count; ++row) {
      load_pack(dy + row * width + i, gradient), load_pack(x + row * width + i, input);
      CT_UNROLL
      for (int j = 0; j < n; ++j) {
        weight_sums[j] += gradient[j] * ((input[j] - mean[row]) * rstd[row]);
        bias_sums[j] += gradient[j];
      }
    }
    store_pack(weight_sums, dweight + i), store_pack(bias_sums, dbias + i);
  }
}

} // namespace detail

// y = layer_norm(x), and the mean and rstd of each row; one warp per row, n elements per access. If `addend` is
// `no_addend`, x = a; otherwise, x = a + addend(b), rounded, and the kernel also stores x in `sum`. The warp holds the
// row in registers (held_row), or, if `packs_per_lane` is 0, reads it again, usually from a cache.
template <int n, int packs_per_lane, class addend, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    layer_norm_kernel(detail::layer_norm_arrays<stored, accumulate> arrays, addend argument, std::int64_t rows,
                      std::int64_t width, accumulate epsilon) {
  auto const row = static_cast<std::int64_t>(blockIdx.x) * detail::norm_warps + threadIdx.x / 32;
  if (row >= rows) return;
  detail::input_row<n, packs_per_lane, addend, stored, accumulate> x;
  accumulate row_sum = 0, squares = 0;
  x.load(arrays, argument, row, static_cast<int>(width), row_sum);
  accumulate const m = warp_sum(row_sum) / static_cast<accumulate>(width);
  x.for_each_pack(static_cast<int>(width), [&](int, accumulate const(&values)[n]) {
    CT_UNROLL
    for (int j = 0; j < n; ++j) squares += (values[j] - m) * (values[j] - m);
  });
  accumulate const r = 1 / math::sqrt(warp_sum(squares) / static_cast<accumulate>(width) + epsilon);
  x.for_each_pack(static_cast<int>(width), [&](int column, accumulate(&values)[n]) {
    accumulate weight[n], bias[n];
    load_pack(arrays.weight + column, weight), load_pack(arrays.bias + column, bias);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] = (values[j] - m) * r * weight[j] + bias[j];
    store_pack(values, arrays.y + row * width + column);
  });
  if (threadIdx.x % 32 != 0) return;
  arrays.mean[row] = m;
  arrays.rstd[row] = r;
}

// dx = layer_norm_gradient(dy, x, weight, mean, rstd), plus dresidual if `adds`, and partial sums of dweight and dbias.
// A block handles a part of the rows, in groups, in three passes: sums of each row, sums of each column, and dx, which
// may overwrite dy or dresidual. The later passes usually find the rows in a cache. n: elements per access, at most two
// in the second pass. If the arrays take packs, rows of up to 1024 elements, except in fp64, use another kernel
// (held_gradient.cuh).
template <int n, bool adds, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads, 2)
    layer_norm_gradient_kernel(detail::layer_norm_gradient_arrays<stored, accumulate> arrays, row_partition rows,
                               std::int64_t width) {
  constexpr int group = detail::norm_group;
  __shared__ accumulate mean[group], rstd[group], mean_of_gradient[group], mean_of_product[group];
  auto const lane = static_cast<std::int64_t>(threadIdx.x % 32) * n;
  int const warp = static_cast<int>(threadIdx.x / 32);
  auto const first = rows.begin(blockIdx.x), end = rows.begin(blockIdx.x + 1);
  accumulate g[n], x[n], weight[n];
  for (auto begin = first; begin < end; begin += group) {
    int const count = static_cast<int>(end - begin < group ? end - begin : group);
    stored const* const dy_rows = arrays.dy + begin * width;
    stored const* const x_rows = arrays.x + begin * width;
    for (int row = warp; row < count; row += detail::norm_warps) {
      accumulate const m = arrays.mean[begin + row], r = arrays.rstd[begin + row];
      accumulate sum = 0, product = 0;
      for (auto i = lane; i < width; i += 32 * n) {
        load_pack(dy_rows + row * width + i, g), load_pack(x_rows + row * width + i, x);
        load_pack(arrays.weight + i, weight);
        CT_UNROLL
        for (int j = 0; j < n; ++j) {
          sum += g[j] * weight[j];
          product += g[j] * weight[j] * ((x[j] - m) * r);
        }
      }
      sum = warp_sum(sum) / static_cast<accumulate>(width);
      product = warp_sum(product) / static_cast<accumulate>(width);
      if (lane == 0) mean[row] = m, rstd[row] = r, mean_of_gradient[row] = sum, mean_of_product[row] = product;
    }
    __syncthreads();
    detail::add_norm_columns<n == 1 ? 1 : 2>(dy_rows, x_rows, mean, rstd, count, width, begin == first,
                                             arrays.dweight + blockIdx.x * width, arrays.dbias + blockIdx.x * width);
    __syncthreads();
    for (int row = warp; row < count; row += detail::norm_warps) {
      auto const offset = (begin + row) * width;
      for (auto i = lane; i < width; i += 32 * n) {
        load_pack(arrays.dy + offset + i, g), load_pack(arrays.x + offset + i, x), load_pack(arrays.weight + i, weight);
        CT_UNROLL
        for (int j = 0; j < n; ++j)
          g[j] = rstd[row] *
                 (g[j] * weight[j] - mean_of_gradient[row] - ((x[j] - mean[row]) * rstd[row]) * mean_of_product[row]);
        if constexpr (adds) {
          load_pack(arrays.dresidual + offset + i, x);
          CT_UNROLL
          for (int j = 0; j < n; ++j) g[j] += x[j];
        }
        store_pack(g, arrays.dx + offset + i);
      }
    }
    __syncthreads();
  }
}

namespace detail {

/// Launches layer_norm_kernel with `arrays` and the addend `argument`. If a, b, weight, bias, sum and y take packs
/// (`takes_packs`), and the addend does too, the kernel accesses packs, and, except in fp64, holds rows of up to 2048
/// elements (64 per lane) in registers.
template <class addend, class stored, class accumulate>
void run_layer_norm(call const& c, layer_norm_arrays<stored, accumulate> const& arrays, addend const& argument,
                    tensor<stored> y, double epsilon) {
  auto const launch = [&](auto* kernel) {
    auto const blocks = static_cast<unsigned>((y.rows() + norm_warps - 1) / norm_warps);
    cuda_launch(*c.parameters.context, dim3(blocks), cuda_threads, kernel, arrays, argument, y.rows(), y.features(),
                static_cast<accumulate>(epsilon));
  };
  constexpr int n = pack_of<stored, accumulate>;
  bool packs = takes_packs<n>(y.features(), arrays.a, arrays.b, arrays.weight, arrays.bias, arrays.sum, arrays.y);
  if constexpr (!std::is_same_v<addend, no_addend>) packs = packs && argument.template takes_packs<n>();
  if (packs)
    with_held_packs<stored, n, 8, 24, 64>(y.features(),
                                          [&]<int packs_per_lane>(std::integral_constant<int, packs_per_lane>) {
                                            launch(&layer_norm_kernel<n, packs_per_lane, addend, stored, accumulate>);
                                          });
  else launch(&layer_norm_kernel<1, 0, addend, stored, accumulate>);
}

/// Launches the kernel of layer_norm_gradient with `arrays`; this function sets `arrays.dweight` and `arrays.dbias`. If
/// the operand dweight is [parts, width], the kernel overwrites it and dbias, one part per block; otherwise it writes
/// the parts to the scratch memory, and a second kernel stores their sums in dweight and dbias. `c` decides whether the
/// second kernel overwrites dweight (output 1) and dbias (output 2) or adds to them.
template <bool adds, class stored, class accumulate>
void run_layer_norm_gradient(call const& c, layer_norm_gradient_arrays<stored, accumulate> arrays, tensor<stored> dx,
                             tensor<accumulate> dweight, tensor<accumulate> dbias) {
  bool const stays_in_parts = dweight.shape().rank == 2;
  auto const parts = stays_in_parts ? dweight.shape().extent[0] : row_parts(dx.rows()), width = dx.features();
  arrays.dweight = stays_in_parts ? dweight.data : c.scratch_as<accumulate>();
  arrays.dbias = stays_in_parts ? dbias.data : arrays.dweight + parts * width;
  auto const launch = [&](auto* kernel, auto columns) {
    cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(parts)), cuda_threads, kernel, arrays,
                row_partition(dx.rows(), parts), columns);
  };
  constexpr int n = pack_of<stored, accumulate>;
  if (takes_packs<n>(width, arrays.dresidual, arrays.dy, arrays.x, arrays.weight, arrays.dx, arrays.dweight,
                     arrays.dbias))
    with_held_packs<stored, n, 8, 24, 32>(width, [&]<int packs_per_lane>(std::integral_constant<int, packs_per_lane>) {
      if constexpr (packs_per_lane == 0) launch(&layer_norm_gradient_kernel<n, adds, stored, accumulate>, width);
      else
        launch(&held_layer_norm_gradient_kernel<n, packs_per_lane, adds, stored, accumulate>, static_cast<int>(width));
    });
  else launch(&layer_norm_gradient_kernel<1, adds, stored, accumulate>, width);
  if (stays_in_parts) return;
  start_sum_parts(
      *c.parameters.context,
      parts_array<accumulate, 2>{{{arrays.dweight, dweight.data, width, width, parts, 1, c.add_to(1) ? 1 : 0},
                                  {arrays.dbias, dbias.data, width, width, parts, 1, c.add_to(2) ? 1 : 0}}},
      2);
}

/// The needs of layer_norm_gradient, with or without a residual. `out`: the call's outputs; only the first two, dx and
/// dweight, count. If dweight is [parts, width], the call needs no scratch memory.
constexpr kernel_needs needs_of_norm_gradient(operand_extents const& out) {
  if (out[1].shape.rank == 2) return {};
  return {.scratch = row_parts(out[0].rows()) * 2 * out[0].features() * size_of(out[1].type), .launches = 2};
}

} // namespace detail

template <class architecture> struct kernel<op::layer_norm, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::layer_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> bias, tensor<stored> y, tensor<accumulate> mean, tensor<accumulate> rstd) {
    detail::layer_norm_arrays<stored, accumulate> const arrays{x.data,  nullptr, weight.data, bias.data,
                                                               nullptr, y.data,  mean.data,   rstd.data};
    detail::run_layer_norm(c, arrays, detail::no_addend{}, y, c.options.epsilon);
  }
};

template <class architecture> struct kernel<op::add_layer_norm, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::add_layer_norm> const& c, tensor<stored const> a, tensor<stored const> b,
                  tensor<accumulate const> weight, tensor<accumulate const> bias, tensor<stored> sum, tensor<stored> y,
                  tensor<accumulate> mean, tensor<accumulate> rstd) {
    detail::layer_norm_arrays<stored, accumulate> const arrays{a.data,   b.data, weight.data, bias.data,
                                                               sum.data, y.data, mean.data,   rstd.data};
    detail::run_layer_norm(c, arrays, detail::plain_addend{}, y, c.options.epsilon);
  }
};

template <class architecture> struct kernel<op::layer_norm_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const& out) {
    return detail::needs_of_norm_gradient(out);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> mean, tensor<accumulate const> rstd, tensor<stored> dx,
                  tensor<accumulate> dweight, tensor<accumulate> dbias, tensor<accumulate>) {
    detail::layer_norm_gradient_arrays<stored, accumulate> const arrays{
        nullptr, dy.data, x.data, weight.data, mean.data, rstd.data, dx.data, nullptr, nullptr};
    detail::run_layer_norm_gradient<false>(c, arrays, dx, dweight, dbias);
  }
};

template <class architecture> struct kernel<op::layer_norm_gradient_add, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const& out) {
    return detail::needs_of_norm_gradient(out);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dresidual, tensor<stored const> dy, tensor<stored const> x,
                  tensor<accumulate const> weight, tensor<accumulate const> mean, tensor<accumulate const> rstd,
                  tensor<stored> dx, tensor<accumulate> dweight, tensor<accumulate> dbias, tensor<accumulate>) {
    detail::layer_norm_gradient_arrays<stored, accumulate> const arrays{
        dresidual.data, dy.data, x.data, weight.data, mean.data, rstd.data, dx.data, nullptr, nullptr};
    detail::run_layer_norm_gradient<true>(c, arrays, dx, dweight, dbias);
  }
};

} // namespace constrain
