#pragma once

// A policy outside of the library that clips the gradient of each tensor, except for its pass, which each program adds.
// CONSTRAIN_WITH_MPI is defined before it is included.
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct clip_tensor {
  static constexpr char const* name = "clip_tensor";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
template <> struct constrain::kernel<clip_tensor, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

struct clip_nothing;
struct clipping {
  bool clips = false;
  friend constexpr bool operator==(clipping const&, clipping const&) = default;
  template <class...> using otherwise = clip_nothing;
  using rules = ct::rule_list<>;
};
struct clip_nothing {
  using slot = clipping;
  static constexpr slot value{};
};
struct clip_policy {
  using slot = clipping;
  static constexpr slot value{.clips = true};
  static constexpr auto after = ct::pass_name::differentiated;
};

/// The correct pass: it clips each gradient after all nodes that add to it.
constexpr ct::program clip_gradients(ct::program const& p) {
  ct::builder out;
  out.program = p;
  ct::for_each_gradient(out,
                        [&](ct::value gradient) { out.call<clip_tensor>({gradient.where()}, {gradient.where()}); });
  return out.program;
}
