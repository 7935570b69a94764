#pragma once

#include "constrain/device/cuda/divisor.hpp"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/dropout/dropout.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Dropout of a tensor [samples, ...], in one thread. `per_sample` divides by `sample_elements`, the number of elements
/// of a sample. `first_sample`: index of the tensor's first sample in the global batch. `scale`: 1 / (1 - probability).
template <class stored> struct dropout_of_thread {
  random_stream stream;
  divisor per_sample;
  std::int64_t sample_elements, first_sample;
  float probability;
  arithmetic<stored> scale;

  /// Applies dropout to the n consecutive elements of one sample that begin at element i of the tensor. If n is a
  /// multiple of 4, it must divide i and the number of elements per sample. The results are rounded to `stored`.
  template <int n> __device__ void apply(std::int64_t i, arithmetic<stored> (&x)[n]) const {
    if (probability == 0) return;
    auto const sample = per_sample.quotient(i), element = i - sample * sample_elements;
    if constexpr (n % 4 == 0) {
      CT_UNROLL
      for (int quad = 0; quad < n / 4; ++quad) {
        auto const bits = stream.draw(first_sample + sample, element / 4 + quad);
        CT_UNROLL
        for (int k = 0; k < 4; ++k) apply(bits.word[k], x[quad * 4 + k]);
      }
    } else {
      CT_UNROLL
      for (int k = 0; k < n; ++k) {
        auto const bits = stream.draw(first_sample + sample, (element + k) / 4);
        auto const word = (element + k) % 4; // comparisons, not an index, so that the words stay in registers
        apply(word < 2 ? word == 0 ? bits.word[0] : bits.word[1] : word == 2 ? bits.word[2] : bits.word[3], x[k]);
      }
    }
  }

private:
  __device__ void apply(std::uint32_t word, arithmetic<stored>& x) const {
    x = stored(uniform(word) < probability ? 0 : x * scale);
  }
};

/// Dropout of a tensor x [samples, ...], as a kernel argument. `probability` and `parameters` point to device memory.
template <class stored> struct dropout_argument {
  double const* probability;
  step_parameters const* parameters;
  divisor per_sample;
  std::int64_t sample_elements, first_sample; // as in dropout_of_thread
  int random_key;
  std::uint64_t iteration;

  /// The dropout of the call `c`. `p`: the probability, a scalar in device memory.
  dropout_argument(call const& c, tensor<stored const> x, tensor<double const> p)
      : probability(p.data), parameters(c.parameters.context->parameters()), per_sample(elements_per_sample(x)),
        sample_elements(elements_per_sample(x)), first_sample(c.first_sample), random_key(c.random_key),
        iteration(c.iteration) {}

  /// The dropout of one thread: reads the seed, the step and the probability from device memory.
  __device__ dropout_of_thread<stored> thread_state() const {
    return {{parameters->seed, parameters->step, random_key, iteration},
            per_sample,
            sample_elements,
            first_sample,
            static_cast<float>(*probability),
            static_cast<arithmetic<stored>>(*probability == 0 ? 1 : 1 / (1 - *probability))};
  }
  /// Whether each pack of n elements lies within one sample. A kernel that accesses packs also needs aligned arrays.
  template <int n> bool takes_packs() const { return sample_elements % n == 0; }

private:
  static std::int64_t elements_per_sample(tensor<stored const> x) {
    return x.shape().rank == 0 ? x.count : x.count / x.shape().extent[0];
  }
};

// y = dropout(x), or residual + dropout(x) if `adds`; n elements per access. `count`: the number of elements. n must
// divide the number of elements of a sample. `residual` is read only if `adds`.
template <int n, bool adds, class stored>
static __global__ void __launch_bounds__(cuda_threads)
    dropout_kernel(std::int64_t count, dropout_argument<stored> argument, stored const* residual, stored const* x,
                   stored* y) {
  auto const dropout = argument.thread_state();
  if (!adds && dropout.probability == 0 && x == y) return;
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads * n;
  arithmetic<stored> values[n], residual_values[n];
  CT_KEEP_LOOP
  for (auto i = (static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x) * n; i < count; i += stride) {
    load_pack(x + i, values);
    dropout.apply(i, values);
    if constexpr (adds) {
      load_pack(residual + i, residual_values);
      CT_UNROLL
      for (int j = 0; j < n; ++j) values[j] += residual_values[j];
    }
    store_pack(values, y + i);
  }
}

/// y = dropout(x, probability), or residual + dropout(x, probability) if `adds`. `residual` may be null if `adds` is
/// false.
template <bool adds, class stored>
void run_dropout(call const& c, stored const* residual, tensor<stored const> x, tensor<double const> probability,
                 tensor<stored> y) {
  dropout_argument<stored> const argument(c, x, probability);
  auto const launch = [&](std::int64_t packs, auto* kernel) {
    cuda_launch(*c.parameters.context, dim3(blocks_for(packs, cuda_threads)), cuda_threads, kernel, y.count, argument,
                residual, x.data, y.data);
  };
  constexpr int n = pack_of<stored>;
  if (argument.template takes_packs<n>() && are_aligned(residual, x.data, y.data))
    launch(y.count / n, &dropout_kernel<n, adds, stored>);
  else launch(y.count, &dropout_kernel<1, adds, stored>);
}

template <class architecture> struct kernel<op::dropout, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<double const> probability, tensor<stored> y) {
    run_dropout<false, stored>(c, nullptr, x, probability, y);
  }
};

/// The argument `f` of `sum_columns` that computes and stores n consecutive elements of dx = dropout(dy), and passes
/// the rounded elements on to the sums.
template <int n, class stored> struct dropout_packs {
  dropout_argument<stored> argument;
  stored const* dy;
  stored* dx;
  std::int64_t width;

  /// The object that one thread uses (column_sums_kernel).
  struct thread_functor {
    dropout_of_thread<stored> dropout;
    stored const* dy;
    stored* dx;
    std::int64_t width;

    /// Loads the n elements of dy from this row and column on.
    __device__ stored_pack<n, stored> load(std::int64_t row, std::int64_t column) const {
      return load_stored<n>(dy + row * width + column);
    }
    __device__ void operator()(stored_pack<n, stored> const& from, std::int64_t row, std::int64_t column,
                               arithmetic<stored> (&values)[n]) const {
      auto const i = row * width + column;
      from.unpack(values);
      dropout.apply(i, values);
      store_pack(values, dx + i);
    }
  };
  __device__ thread_functor thread_state() const { return {argument.thread_state(), dy, dx, width}; }
};

template <class architecture> struct kernel<op::dropout_bias_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    return needs_of_sum_columns(in[0].rows(), in[0].features(), out[1]);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<double const> probability, tensor<stored> dx,
                  tensor<accumulate> dbias) {
    dropout_argument<stored> const argument(c, dy, probability);
    auto const sum = [&]<int n>(std::integral_constant<int, n>) {
      sum_columns<n>(c, dropout_packs<n, stored>{argument, dy.data, dx.data, dx.features()}, dx.rows(), dx.features(),
                     dbias, c.add_to(1));
    };
    constexpr int pack = pack_of<stored>;
    if (argument.template takes_packs<pack>() && takes_packs<pack>(dx.features(), dy.data, dx.data))
      sum(std::integral_constant<int, pack>{});
    else sum(std::integral_constant<int, 1>{});
  }
};

} // namespace constrain
