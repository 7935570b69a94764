#include "programs.hpp"

#include <constrain/pass/refusals.hpp>
#include <constrain/pass/step_passes.hpp>

// Programs that a pass refuses, with the numbers of their sentences. The sentences are tested in tests/refused/. Own
// passes are in own_pass.cpp, parameters without a path in differentiate.cpp.

using namespace constrain;
using namespace constrain::test;

namespace {

struct opaque {
  static constexpr char const* name = "opaque";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct last_of { // one feature of each row
  static constexpr char const* name = "last_of";
  static constexpr inferred infer(operand_types const& in) {
    auto s = in[0].shape;
    s.extent[s.rank - 1] = 1;
    return inferred::one(in[0].type, s);
  }
};
struct narrowing : opaque { // its gradient has the shape of a row
  static constexpr void gradient(backward& b) { b.add(0, mean(b.gradient(), axis::tokens)); }
};
struct branching : opaque { // its gradient rule is not constexpr
  static void gradient(backward&) {}
};
template <int terms> struct in_terms : opaque {
  static constexpr void gradient(backward& b) {
    for (int k = 0; k < terms; ++k) b.add(0, b.gradient());
  }
};
struct of_nine : opaque { // its gradient rule calls an op with more inputs than a node holds
  static constexpr void gradient(backward& b) {
    auto const g = b.gradient();
    b.emit<opaque>({g, g, g, g, g, g, g, g, g}, {0});
  }
};
struct of_ten_outputs : opaque {
  static constexpr inferred infer(operand_types const& in) {
    auto result = opaque::infer(in);
    for (int j = 1; j < 10; ++j) result = result.and_also(in[0].type, in[0].shape);
    return result;
  }
};
struct of_ten_targets : opaque { // its gradient rule names more outputs than a node holds
  static constexpr void gradient(backward& b) {
    b.emit<opaque>({b.gradient()}, {0, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  }
};
struct unequal : opaque { // its gradient rule calls an op that refuses the inputs
  static constexpr void gradient(backward& b) { b.emit<op::add>({b.gradient(), emit<last_of>({b.gradient()})}, {0}); }
};
struct in_halves { // two outputs; the gradient rule passes on the gradient of output 0
  static constexpr char const* name = "in_halves";
  static constexpr inferred infer(operand_types const& in) {
    auto const half = in[0].shape.with_features(2);
    return inferred::one(in[0].type, half).and_also(in[0].type, half);
  }
  static constexpr void gradient(backward& b) { b.add(0, concatenate({b.gradient(), b.gradient()}, 2)); }
};
template <int second> struct joined {
  constexpr value operator()(value x) const {
    auto const halves = emit_all<in_halves>({x}, {}, 7);
    return concatenate({halves[0], halves[second]}, 2);
  }
};
struct forgetful { // a repeat whose body returns something of outside
  constexpr value operator()(value x) const {
    return repeat("block", 2, x, [&](value) { return x; });
  }
};
template <class op> struct calling {
  constexpr value operator()(value x) const { return emit<op>({x}, {}, 7); }
};
template <class layer, role of_all = role::weight> struct model {
  constexpr value operator()(value tokens) const {
    auto const table = parameter(tokens, "table", shape(5, 4), of_all);
    return linear(layer{}(embedding(table, tokens)), table);
  }
};

template <class layer, role of_all = role::weight> struct source {
  using policies = constrain::policies<>;
  using optimizer = optimizer::sgd;
  static constexpr program build() {
    return task<model<layer, of_all>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>::build(entry::step,
                                                                                                    dtype::f32);
  }
};
template <class layer, role of_all = role::weight>
constexpr diagnosis refused = step_passes<source<layer, of_all>>::final.failure;

struct identity {
  constexpr value operator()(value x) const { return x; }
};
static_assert(refused<identity>.ok());
static_assert(refused<identity, role::frozen> == diagnosis_with<refusals::nothing_is_trained>());
static_assert(refused<calling<opaque>> == diagnosis_with<refusals::no_gradient_rule>(7, 0, 1, 0));
static_assert(refused<calling<narrowing>> == diagnosis_with<refusals::gradient_has_another_shape>(7, 0, 24, 8));
static_assert(refused<calling<branching>> == diagnosis_with<refusals::gradient_is_not_constant>());
static_assert(refused<calling<in_terms<16>>>.ok());
static_assert(refused<calling<in_terms<17>>> == diagnosis_with<refusals::too_many_gradient_terms>(7, 0, 16, 17));
static_assert(refused<calling<of_nine>> == diagnosis{why::too_many_operands, 7, 0, 8, 9});
static_assert(refused<calling<of_ten_outputs>> == diagnosis{why::too_many_operands, 7, 0, 9, 10});
static_assert(refused<calling<of_ten_targets>> == diagnosis{why::too_many_operands, 7, 0, 9, 10});
static_assert(refused<joined<0>>.ok());
static_assert(refused<joined<1>> == diagnosis_with<refusals::output_without_a_gradient>(7, 0, 0, 1));
static_assert(refused<calling<unequal>> == diagnosis_with<op::widths_differ>(7, 0, 4, 1));
static_assert(refused<forgetful>.refusal == refusal_with<refusals::repeat_ignores_its_input>());

} // namespace
