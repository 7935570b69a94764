#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The rows of logits that a kernel reads, their labels, and the options of the loss. Each block handles one row, with
/// n logits per access.
template <int n, class stored> struct loss_rows {
  using accumulate = arithmetic<stored>;

  stored const* logits;
  std::int32_t const* labels;
  std::int64_t classes, stride; // elements of a row, and from one row to the next
  cross_entropy_options options;

  /// The logits and the label of the block's row.
  __device__ stored const* row() const { return logits + static_cast<std::int64_t>(blockIdx.x) * stride; }
  __device__ std::int32_t label() const { return labels[blockIdx.x]; }
  /// Calls f(i, values) for this thread's packs of n elements, then f(i, last) with an array of one element, if this
  /// thread has an element after the last pack; i is the index of the first element of the array. Except in fp64, two
  /// packs are loaded before the first is used, if the thread has two left.
  template <class function> __device__ void for_each_pack(function const& f) const {
    auto const packed_count = classes - classes % n;
    accumulate values[n], last[1];
    auto const apply = [&](std::int64_t i, stored_pack<n, stored> const& pack) {
      pack.unpack(values);
      f(i, values);
    };
    auto const pack_stride = static_cast<std::int64_t>(blockDim.x) * n;
    auto i = static_cast<std::int64_t>(threadIdx.x) * n;
    if constexpr (sizeof(stored) < 8) { // in fp64, the registers do not suffice for two calls of exp
      CT_KEEP_LOOP
      for (; i + pack_stride < packed_count; i += 2 * pack_stride) {
        auto const first = load_stored<n>(row() + i), second = load_stored<n>(row() + i + pack_stride);
        apply(i, first), apply(i + pack_stride, second);
      }
      if (i < packed_count) apply(i, load_stored<n>(row() + i));
    } else
      for (; i < packed_count; i += pack_stride) apply(i, load_stored<n>(row() + i));
    if (auto const index = packed_count + threadIdx.x; index < classes) {
      load_pack(row() + index, last);
      f(index, last);
    }
  }
};

namespace detail {

/// The lowest finite value, with which a maximum starts: with -infinity, a logit of -infinity would give NaN.
template <class real> inline constexpr real lowest = std::numeric_limits<real>::lowest();

/// The statistics of a row of logits from which the loss of the row is computed.
template <class accumulate> struct logit_statistics {
  accumulate log_sum_exp, sum, label_logit; // sum: of the logits, 0 if not needed; label_logit: 0 for an ignored label
};

/// The statistics of the block's row, in one pass over the logits: exponents are relative to the maximum so far, and
/// the sum of the exponentials is rescaled when the maximum grows (Milakov & Gimelshein 2018). The sum of the logits is
/// computed only if label smoothing needs it. All threads of the block must take part, and every thread gets the
/// result.
template <int n, class stored, class accumulate = arithmetic<stored>>
__device__ logit_statistics<accumulate> statistics_of_row(loss_rows<n, stored> const& rows,
                                                          typename block_reduction<accumulate>::memory& shared) {
  using reduction = block_reduction<accumulate>;
  auto const label = rows.label();
  // The gradient may overwrite the logits, so all threads read the label's logit before the first barrier.
  accumulate const label_logit = label == ignored_label ? accumulate(0) : accumulate(rows.row()[label]);
  accumulate running_max = lowest<accumulate>, exp_sum = 0, sum = 0;
  bool const needs_sum = rows.options.label_smoothing != 0;
  rows.for_each_pack([&]<int count>(std::int64_t, accumulate const(&x)[count]) {
    accumulate pack_max = x[0];
    CT_UNROLL
    for (int j = 1; j < count; ++j) pack_max = math::larger(x[j], pack_max);
    if (pack_max > running_max) exp_sum *= math::exp_or_zero(running_max - pack_max), running_max = pack_max;
    CT_UNROLL
    for (int j = 0; j < count; ++j) exp_sum += math::exp_or_zero(x[j] - running_max);
    if (!needs_sum) return;
    CT_UNROLL
    for (int j = 0; j < count; ++j) sum += x[j];
  });
  accumulate const row_max = reduction{shared}.max(running_max);
  exp_sum = reduction{shared}.sum(exp_sum * math::exp_or_zero(running_max - row_max));
  if (needs_sum) sum = reduction{shared}.sum(sum);
  return {row_max + math::log(exp_sum), sum, label_logit};
}

/// The loss of the block's row from the row's statistics; 0 for an ignored label.
template <int n, class stored, class accumulate>
__device__ double loss_of_row(loss_rows<n, stored> const& rows, logit_statistics<accumulate> const& row) {
  if (rows.label() == ignored_label) return 0;
  auto const log_sum = static_cast<double>(row.log_sum_exp);
  double const nll = log_sum - static_cast<double>(row.label_logit), z = rows.options.z_loss;
  double const smoothing = rows.options.label_smoothing;
  if (smoothing == 0) return z == 0 ? nll : nll + z * log_sum * log_sum;
  double const uniform_loss = log_sum - static_cast<double>(row.sum) / static_cast<double>(rows.classes);
  return (1 - smoothing) * nll + smoothing * uniform_loss + z * log_sum * log_sum;
}

/// dlogits = the gradient of the loss of the block's row with respect to the row's logits, times `scale`; 0 for an
/// ignored label, whatever the logits are. `dlogits`: the row of dlogits, which may be the row of logits. All threads
/// of the block must take part.
template <int n, class stored, class accumulate>
__device__ void write_gradient_of_row(loss_rows<n, stored> const& rows, accumulate log_sum_exp, double scale,
                                      stored* dlogits) {
  auto const label = rows.label();
  auto const factor = static_cast<accumulate>(scale);
  auto const label_target = static_cast<accumulate>(1 - rows.options.label_smoothing) * factor;
  auto const uniform_target =
      static_cast<accumulate>(rows.options.label_smoothing / static_cast<double>(rows.classes)) * factor;
  accumulate const softmax_factor = (1 + static_cast<accumulate>(2 * rows.options.z_loss) * log_sum_exp) * factor;
  rows.for_each_pack([&]<int count>(std::int64_t i, accumulate const(&x)[count]) {
    accumulate results[count];
    CT_UNROLL
    for (int j = 0; j < count; ++j)
      results[j] = label == ignored_label ? accumulate(0)
                                          : math::exp_or_zero(x[j] - log_sum_exp) * softmax_factor - uniform_target;
    if (auto const label_offset = label - i; label_offset >= 0 && label_offset < count) {
      CT_UNROLL
      for (int j = 0; j < count; ++j) results[j] -= j == label_offset ? label_target : accumulate(0);
    }
    store_pack(results, dlogits + i);
  });
}

} // namespace detail

// Computes the logsumexp and the loss of each row. One block per row.
template <int n, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    cross_entropy_kernel(loss_rows<n, stored> rows, accumulate* log_sum_exp, double* row_loss) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const row = detail::statistics_of_row(rows, shared);
  if (threadIdx.x != 0) return;
  log_sum_exp[blockIdx.x] = row.log_sum_exp;
  row_loss[blockIdx.x] = detail::loss_of_row(rows, row);
}

// Computes dlogits, which has `stride` elements from one row to the next. One block per row.
template <int n, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    cross_entropy_gradient_kernel(loss_rows<n, stored> rows, accumulate const* log_sum_exp, double const* dloss,
                                  double const* inverse_count, stored* dlogits, std::int64_t stride) {
  detail::write_gradient_of_row(rows, log_sum_exp[blockIdx.x], *dloss * *inverse_count,
                                dlogits + static_cast<std::int64_t>(blockIdx.x) * stride);
}

// loss[0] = the sum of the rows' losses, times inverse_count[0]. If `add`, the result is added to loss[0] instead. One
// block.
template <class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    sum_loss_kernel(accumulate const* row_loss, std::int64_t rows, accumulate const* inverse_count, accumulate* loss,
                    bool add) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) sum += row_loss[i];
  sum = block_reduction<accumulate>{shared}.sum(sum) * *inverse_count;
  if (threadIdx.x == 0) loss[0] = add ? loss[0] + sum : sum;
}

/// Calls f(rows), where `rows` is the `loss_rows` of a kernel. `packs`: whether the kernel's other arrays allow
/// accesses of several elements. `rows` has one logit per access in fp64, and if these arrays or the logits do not
/// allow packs.
template <class stored, class function>
void with_loss_rows(tensor<stored const> logits, tensor<std::int32_t const> labels,
                    cross_entropy_options const& options, bool packs, function const& f) {
  auto const stride = logits.row_stride();
  auto const call_with = [&]<int n>(std::integral_constant<int, n>) {
    f(loss_rows<n, stored>{logits.data, labels.data, logits.features(), stride, options});
  };
  constexpr int pack =
      sizeof(stored) < 8 ? pack_of<stored> : 1; // in fp64, the registers do not suffice for two calls of exp
  if (packs && takes_packs<pack_of<stored>>(stride, logits.data)) call_with(std::integral_constant<int, pack>{});
  else call_with(std::integral_constant<int, 1>{});
}
/// Like `with_loss_rows`, for a kernel that also writes dlogits.
template <class stored, class function>
void with_gradient_rows(tensor<stored const> logits, tensor<std::int32_t const> labels,
                        cross_entropy_options const& options, tensor<stored> dlogits, function const& f) {
  with_loss_rows(logits, labels, options, takes_packs<pack_of<stored>>(dlogits.row_stride(), dlogits.data), f);
}

/// Computes the loss, the logsumexp of each row, and the loss of each row. If `c` adds to output 0, the loss is added
/// to loss[0].
template <class stored, class accumulate>
void run_cross_entropy(call const& c, cross_entropy_options const& options, tensor<stored const> logits,
                       tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                       tensor<accumulate> row_log_sum_exp, tensor<double> row_loss) {
  auto& context = *c.parameters.context;
  with_loss_rows(logits, labels, options, true, [&]<int n>(loss_rows<n, stored> const& rows) {
    cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads,
                cross_entropy_kernel<n, stored, accumulate>, rows, row_log_sum_exp.data, row_loss.data);
  });
  cuda_launch(context, dim3(1), cuda_threads, sum_loss_kernel<double>, row_loss.data, labels.count, inverse_count.data,
              loss.data, c.add_to(0));
}

/// Computes dlogits from the logsumexp of each row.
template <class stored, class accumulate>
void run_cross_entropy_gradient(call const& c, cross_entropy_options const& options, tensor<double const> dloss,
                                tensor<stored const> logits, tensor<std::int32_t const> labels,
                                tensor<accumulate const> row_log_sum_exp, tensor<double const> inverse_count,
                                tensor<stored> dlogits) {
  with_gradient_rows(logits, labels, options, dlogits, [&]<int n>(loss_rows<n, stored> const& rows) {
    cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(labels.count)), cuda_threads,
                cross_entropy_gradient_kernel<n, stored, accumulate>, rows, row_log_sum_exp.data, dloss.data,
                inverse_count.data, dlogits.data, dlogits.row_stride());
  });
}

template <class architecture> struct kernel<op::cross_entropy, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<accumulate> row_log_sum_exp,
                  tensor<double> row_loss) {
    run_cross_entropy(c, {}, logits, labels, inverse_count, loss, row_log_sum_exp, row_loss);
  }
};

template <class architecture> struct kernel<op::cross_entropy_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<accumulate const> row_log_sum_exp,
                  tensor<double const> inverse_count, tensor<stored> dlogits) {
    run_cross_entropy_gradient(c, {}, dloss, logits, labels, row_log_sum_exp, inverse_count, dlogits);
  }
};

} // namespace constrain
