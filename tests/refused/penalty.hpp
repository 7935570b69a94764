#pragma once

// A term of the loss, and the slot of a policy that adds it. It is included after constrain.hpp, which g++ takes
// compiled only as a program's first include.
namespace ct = constrain;

struct half_square_gradient {
  static constexpr char const* name = "half_square_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};
/// The sum of x * x / 2.
struct half_square {
  static constexpr char const* name = "half_square";
  static constexpr unsigned accumulating = 0b1;
  static constexpr ct::inferred infer(ct::operand_types const&) { return ct::inferred::one(ct::dtype::f64, {}); }
  static constexpr void gradient(ct::backward& b) { b.emit<half_square_gradient>({b.gradient(), b.input(0)}, {0}); }
};

struct no_penalty;
struct penalized {
  bool any = false;
  friend constexpr bool operator==(penalized const&, penalized const&) = default;
  template <class...> using otherwise = no_penalty;
  using rules = ct::rule_list<>;
};
struct no_penalty {
  using slot = penalized;
  static constexpr slot value{};
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::repeat("block", 3, x, [](ct::value z) { return z + ct::gelu(ct::linear("up", z, 64)); });
    return ct::linear("head", y, 97);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
