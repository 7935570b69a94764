#pragma once

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>

// A user's policy whose pass reads and overwrites every gradient between the backward pass and the update: each
// tensor's gradient is multiplied by min(1, limit / its norm). The limit is the setting "tensor_norm". Nothing of it is
// in the library. It exists twice: as one op that needs all elements of a tensor, and as the library's norm followed by
// an op that works element by element, and so on shards too.

namespace constrain::test {

/// Inputs: gradient, limit; in fp16 also the scale of the loss. Output: the clipped gradient.
struct clip_tensor {
  static constexpr char const* name = "clip_tensor";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// Inputs: gradient, the square of its norm, limit; in fp16 also the scale of the loss. Output: the clipped gradient.
struct scale_tensor {
  static constexpr char const* name = "scale_tensor";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

struct no_tensor_clipping;

struct tensor_clipping_slot {
  bool clips = false, by_elements = false;
  friend constexpr bool operator==(tensor_clipping_slot const&, tensor_clipping_slot const&) = default;
  template <class...> using otherwise = no_tensor_clipping;
  CONSTRAIN_RULE(one_clipping, (said<tensor_clipping_slot> const& s), s.given <= 1,
                 "policies: more than one tensor_clipping policy is given; keep one");
  using rules = rule_list<one_clipping>;
};
struct no_tensor_clipping {
  using slot = tensor_clipping_slot;
  static constexpr slot value{};
};
template <bool by_elements> struct tensor_clipping {
  using slot = tensor_clipping_slot;
  static constexpr slot value{.clips = true, .by_elements = by_elements};
  static constexpr auto after = pass_name::differentiated;

  static constexpr program pass(program const& p, slot const& s) {
    builder out;
    out.program = p;
    auto const limit = setting(constrain::value{out, p.result("loss")}, "tensor_norm", 0.01);
    for_each_gradient(out, [&](constrain::value gradient) {
      node n;
      n.inputs.push_back(gradient.where());
      if (s.by_elements) n.inputs.push_back(emit<op::gradient_norm_squared>({gradient}).where());
      n.inputs.push_back(limit.where());
      if (p.loss_scale) n.inputs.push_back(p.loss_scale);
      n.outputs.push_back(gradient.where());
      out.append(s.by_elements ? info_of<scale_tensor> : info_of<clip_tensor>, n);
    });
    return out.program;
  }
};

} // namespace constrain::test

template <> struct constrain::kernel<constrain::test::clip_tensor, constrain::cpu> {
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<double const> limit, tensor<real> clipped) {
    clip(gradient, limit[0], clipped);
  }
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<double const> limit, tensor<double const> loss_scale,
                  tensor<real> clipped) {
    clip(gradient, limit[0] * loss_scale[0], clipped);
  }

private:
  template <class real> static void clip(tensor<real const> gradient, double limit, tensor<real> clipped) {
    double squares = 0;
    for (std::int64_t i = 0; i < gradient.count; ++i)
      squares += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    auto const factor = static_cast<real>(std::min(1.0, limit / std::sqrt(squares)));
    for (std::int64_t i = 0; i < gradient.count; ++i) clipped[i] = gradient[i] * factor;
  }
};

template <> struct constrain::kernel<constrain::test::scale_tensor, constrain::cpu> {
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<double const> squares, tensor<double const> limit,
                  tensor<real> clipped) {
    scale(gradient, std::min(1.0, limit[0] / std::sqrt(squares[0])), clipped);
  }
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<double const> squares, tensor<double const> limit,
                  tensor<double const> loss_scale, tensor<real> clipped) {
    scale(gradient, std::min(1.0, limit[0] * loss_scale[0] / std::sqrt(squares[0])), clipped);
  }

private:
  template <class real> static void scale(tensor<real const> gradient, double factor, tensor<real> clipped) {
    for (std::int64_t i = 0; i < gradient.count; ++i) clipped[i] = gradient[i] * static_cast<real>(factor);
  }
};
