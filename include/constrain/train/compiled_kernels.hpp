#pragma once

// The CPU kernels that the companion library (`constrain::compiled`) contains: most kernels that GPT-2, BERT and Llama
// call in each precision with automatic fusion, without parallelism. A translation unit that uses the library does not
// compile these kernels. All other kernels, such as the kernels of your own ops and the copies of checkpoint::every<2>,
// are compiled in every translation unit with a trainer or an inference object that calls them. So are the kernels of
// optimizer updates (with precision::pure_bf16, also those that compute and round the fp32 copy of a weight): an
// optimizer must compute the same bits inside another optimizer (by_role, states_in) as without it, even if the library
// was compiled with other optimization flags.

#include "constrain/model/bert.hpp"
#include "constrain/model/gpt2.hpp"
#include "constrain/model/llama.hpp"
#include "constrain/model/objective/causal_lm.hpp"
#include "constrain/model/objective/classification.hpp"
#include "constrain/model/objective/masked_lm.hpp"
#include "constrain/policy/policies.hpp"
#include "constrain/run/launchers.hpp"
#include "constrain/train/trainer.hpp"

#if !CONSTRAIN_DEFINITIONS

#if defined(CONSTRAIN_COMPANION_KERNELS)
#define CONSTRAIN_KERNEL(...) template struct typed_call<__VA_ARGS__>
#else
#define CONSTRAIN_KERNEL(...) extern template struct typed_call<__VA_ARGS__>
#endif

namespace constrain::inline CONSTRAIN_VARIANT::detail {

// The ops of GPT-2, BERT and Llama. T: dtype of activations and, as kernels read them, of parameters of two or more
// dimensions. P: dtype of biases, norm weights, statistics, rotary tables and parameter gradients.
#define CONSTRAIN_MODEL_KERNELS(T, P)                                                                                  \
  CONSTRAIN_KERNEL(op::add, cpu, inputs<T, T>, outputs<T>);                                                            \
  CONSTRAIN_KERNEL(op::add_layer_norm, cpu, inputs<T, T, P, P>, outputs<T, T, P, P>);                                  \
  CONSTRAIN_KERNEL(op::attention, cpu, inputs<T, T, T>, outputs<T, P>);                                                \
  CONSTRAIN_KERNEL(op::attention, cpu, inputs<T, T, T, dtype::i32>, outputs<T, P>);                                    \
  CONSTRAIN_KERNEL(op::attention_gradient, cpu, inputs<T, T, T, T, P>, outputs<T, T, T, P>);                           \
  CONSTRAIN_KERNEL(op::class_counts, cpu, inputs<T, dtype::i32>, outputs<dtype::f64, dtype::i32>);                     \
  CONSTRAIN_KERNEL(op::correct_predictions, cpu, inputs<T, dtype::i32>, outputs<dtype::f64>);                          \
  CONSTRAIN_KERNEL(op::cross_entropy, cpu, inputs<T, dtype::i32, dtype::f64>, outputs<dtype::f64, P, dtype::f64>);     \
  CONSTRAIN_KERNEL(op::cross_entropy_and_gradient, cpu, inputs<T, dtype::i32, dtype::f64, dtype::f64>,                 \
                   outputs<T, dtype::f64, dtype::f64>);                                                                \
  CONSTRAIN_KERNEL(op::dropout, cpu, inputs<T, dtype::f64>, outputs<T>);                                               \
  CONSTRAIN_KERNEL(op::dropout_add, cpu, inputs<T, T, dtype::f64>, outputs<T>);                                        \
  CONSTRAIN_KERNEL(op::dropout_add_layer_norm, cpu, inputs<T, T, dtype::f64, P, P>, outputs<T, T, P, P>);              \
  CONSTRAIN_KERNEL(op::dropout_bias_gradient, cpu, inputs<T, dtype::f64>, outputs<T, P>);                              \
  CONSTRAIN_KERNEL(op::elementwise<op::gelu>, cpu, inputs<T>, outputs<T>);                                             \
  CONSTRAIN_KERNEL(op::elementwise<op::gelu_tanh>, cpu, inputs<T>, outputs<T>);                                        \
  CONSTRAIN_KERNEL(op::elementwise<op::silu>, cpu, inputs<T>, outputs<T>);                                             \
  CONSTRAIN_KERNEL(op::elementwise<op::tanh>, cpu, inputs<T>, outputs<T>);                                             \
  CONSTRAIN_KERNEL(op::elementwise_gradient<op::silu>, cpu, inputs<T, T>, outputs<T>);                                 \
  CONSTRAIN_KERNEL(op::elementwise_gradient_bias<op::gelu>, cpu, inputs<T, T>, outputs<T, P, P>);                      \
  CONSTRAIN_KERNEL(op::elementwise_gradient_bias<op::gelu_tanh>, cpu, inputs<T, T>, outputs<T, P, P>);                 \
  CONSTRAIN_KERNEL(op::elementwise_gradient_bias<op::tanh>, cpu, inputs<T, T>, outputs<T, P, P>);                      \
  CONSTRAIN_KERNEL(op::embedding, cpu, inputs<T, dtype::i32>, outputs<T>);                                             \
  CONSTRAIN_KERNEL(op::embedding_gradient, cpu, inputs<T, dtype::i32>, outputs<P>);                                    \
  CONSTRAIN_KERNEL(op::flash_attention, cpu, inputs<T, T, T>, outputs<T, P>);                                          \
  CONSTRAIN_KERNEL(op::flash_attention, cpu, inputs<T, T, T, dtype::i32>, outputs<T, P>);                              \
  CONSTRAIN_KERNEL(op::flash_attention_gradient, cpu, inputs<T, T, T, T, T, P>, outputs<T, T, T, P>);                  \
  CONSTRAIN_KERNEL(op::flash_attention_gradient, cpu, inputs<T, T, T, T, T, P, dtype::i32>, outputs<T, T, T, P>);      \
  CONSTRAIN_KERNEL(op::gather_rows, cpu, inputs<T, dtype::i32>, outputs<T>);                                           \
  CONSTRAIN_KERNEL(op::layer_norm, cpu, inputs<T, P, P>, outputs<T, P, P>);                                            \
  CONSTRAIN_KERNEL(op::layer_norm_gradient, cpu, inputs<T, T, P, P, P>, outputs<T, P, P, P>);                          \
  CONSTRAIN_KERNEL(op::layer_norm_gradient_add, cpu, inputs<T, T, T, P, P, P>, outputs<T, P, P, P>);                   \
  CONSTRAIN_KERNEL(op::linear, cpu, inputs<T, T>, outputs<T>);                                                         \
  CONSTRAIN_KERNEL(op::linear, cpu, inputs<T, T, P>, outputs<T>);                                                      \
  CONSTRAIN_KERNEL(op::linear_bias_gradient, cpu, inputs<T>, outputs<P>);                                              \
  CONSTRAIN_KERNEL(op::linear_input_gradient, cpu, inputs<T, T>, outputs<T>);                                          \
  CONSTRAIN_KERNEL(op::linear_weight_gradient, cpu, inputs<T, T>, outputs<P>);                                         \
  CONSTRAIN_KERNEL(op::multiply, cpu, inputs<T, T>, outputs<T>);                                                       \
  CONSTRAIN_KERNEL(op::position_embedding, cpu, inputs<T, T>, outputs<T>);                                             \
  CONSTRAIN_KERNEL(op::position_embedding_gradient, cpu, inputs<T>, outputs<P>);                                       \
  CONSTRAIN_KERNEL(op::rms_norm, cpu, inputs<T, P>, outputs<T, P>);                                                    \
  CONSTRAIN_KERNEL(op::rms_norm_gradient, cpu, inputs<T, T, P, P>, outputs<T, P, P>);                                  \
  CONSTRAIN_KERNEL(op::rotary_embedding, cpu, inputs<T, P>, outputs<T>);                                               \
  CONSTRAIN_KERNEL(op::rotary_embedding, cpu, inputs<T, P, dtype::i32>, outputs<T>);                                   \
  CONSTRAIN_KERNEL(op::rotary_table, cpu, inputs<T>, outputs<P>);                                                      \
  CONSTRAIN_KERNEL(op::scatter_rows, cpu, inputs<T, dtype::i32>, outputs<T>);                                          \
  CONSTRAIN_KERNEL(op::select_token, cpu, inputs<T>, outputs<T>);                                                      \
  CONSTRAIN_KERNEL(op::select_token_gradient, cpu, inputs<T>, outputs<T>)

CONSTRAIN_MODEL_KERNELS(dtype::f32, dtype::f32);
CONSTRAIN_MODEL_KERNELS(dtype::bf16, dtype::f32);
CONSTRAIN_MODEL_KERNELS(dtype::f16, dtype::f32);
CONSTRAIN_MODEL_KERNELS(dtype::f64, dtype::f64);
CONSTRAIN_KERNEL(op::cast, cpu, inputs<dtype::f32>, outputs<dtype::bf16>);
CONSTRAIN_KERNEL(op::cast, cpu, inputs<dtype::f32>, outputs<dtype::f16>);
CONSTRAIN_KERNEL(op::clip_coefficient, cpu, inputs<dtype::f64, dtype::f64>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::clip_coefficient, cpu, inputs<dtype::f64, dtype::f64, dtype::f64>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::constant_like, cpu, inputs<dtype::f64>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::copy, cpu, inputs<dtype::f64>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::gather_rows, cpu, inputs<dtype::i32, dtype::i32>, outputs<dtype::i32>);
CONSTRAIN_KERNEL(op::gradient_norm_squared, cpu, inputs<dtype::f32>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::gradient_norm_squared, cpu, inputs<dtype::f64>, outputs<dtype::f64>);
CONSTRAIN_KERNEL(op::round_to_tf32, cpu, inputs<dtype::f32>, outputs<dtype::f32>);
CONSTRAIN_KERNEL(op::valid_first, cpu, inputs<dtype::i32>, outputs<dtype::i32>);

#undef CONSTRAIN_MODEL_KERNELS
#undef CONSTRAIN_KERNEL

} // namespace constrain::detail

#endif
