#include "programs.hpp"

#include <constrain/pass/mixed_precision.hpp>
#include <constrain/pass/verify.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

/// The role of the value that the only call of `op` reads as input k, in the order of the calls.
constexpr role role_read(program const& p, op_info const& op, int call, int k) {
  for (auto const& n : p.nodes)
    if (calls(n, op) && call-- == 0) return p.values[n.inputs[k].value].role;
  return role::input;
}

constexpr program model = built<gpt2_task>();
constexpr program matrices = constrain::mixed_precision(model, {.compute = dtype::bf16});
constexpr program with_biases = constrain::mixed_precision(model, {.compute = dtype::bf16}, true);
constexpr program stored_narrow = constrain::mixed_precision(model, {.compute = dtype::bf16, .masters = false}, true);

// Matrices are cast: the tables of tokens and positions, and the four weights of a block. Biases only if asked for.
static_assert(calls(matrices, &info_of<op::cast>) == 6 && calls(with_biases, &info_of<op::cast>) == 10);
static_assert(role_read(matrices, info_of<op::linear>, 0, 1) == role::compute_copy);
static_assert(role_read(matrices, info_of<op::linear>, 0, 2) == role::bias);
static_assert(role_read(with_biases, info_of<op::linear>, 0, 2) == role::compute_copy);
static_assert(role_read(with_biases, info_of<op::layer_norm>, 0, 1) == role::norm);
// The gradient of a bias is its parameter's, in fp32.
constexpr program trained = update<optimizer::adamw>(differentiate(with_biases));
static_assert(trained.failure.ok() && trained.values[gradient_of(trained, "block.mlp.up.bias")].type == dtype::f32);
// Without masters, nothing is cast.
static_assert(calls(stored_narrow, &info_of<op::cast>) == 0);

// A bias that something else reads too keeps its type.
struct read_twice {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const weight = parameter(x, "weight", shape(4, 4), role::weight);
    auto const both = parameter(x, "bias", shape(4), role::bias);
    auto const y = emit<op::linear>({x, weight, both});
    return linear("head", emit<op::layer_norm>({y, both, both}, layer_norm_options{}), 5);
  }
};
using read_twice_task = task<read_twice{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr program twice = constrain::mixed_precision(built<read_twice_task>(), {.compute = dtype::bf16}, true);
static_assert(role_read(twice, info_of<op::linear>, 0, 2) == role::bias);
static_assert(role_read(twice, info_of<op::linear>, 1, 2) == role::compute_copy); // the head's

// Operands of a GEMM that are computed in fp32 are cast: a vector in the shape of a matrix, and a sum with a vector.
struct vector_as_matrix {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const y = linear(x, reshape(parameter(x, "weight", shape(16), role::weight), shape(4, 4)));
    auto const scale = parameter(x, "scale", shape(4), role::norm);
    auto const squared = linear(reshape(scale * scale, shape(1, 4)), parameter(x, "square", shape(4, 4), role::weight));
    return linear(
        "head", emit<op::linear>({y, parameter(x, "last", shape(4, 4), role::weight), reshape(squared, shape(4))}), 5);
  }
};
using vector_task = task<vector_as_matrix{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr program of_vectors = constrain::mixed_precision(built<vector_task>(), {.compute = dtype::bf16});
static_assert(calls(of_vectors, &info_of<op::cast>) == 4 + 2);
constexpr program trained_vectors = update<optimizer::adamw>(differentiate(of_vectors));
static_assert(trained_vectors.values[gradient_of(trained_vectors, "weight")].type == dtype::f32);

// In fp32, an fp32 term of the loss, which is fp64, is cast, and nothing else. Other programs do not change.
struct with_a_term {
  constexpr value operator()(value logits, value labels) const {
    auto const term = emit<op::mean>({reshape(logits * logits, shape(30))}, {.dimension = 0});
    return term + cross_entropy(logits, labels);
  }
};
using term_task = task<chain<2>{}, with_a_term, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr slot_of::precision in_fp32{};
constexpr program term_built = built<term_task>();
constexpr program term_cast = constrain::mixed_precision(term_built, in_fp32, true);
static_assert(calls(term_cast, &info_of<op::cast>) == 1 && term_cast.nodes.size() == term_built.nodes.size() + 1);
static_assert(term_cast.values[term_cast.result("loss").value].type == dtype::f64);
static_assert(needs_casts(term_built, in_fp32) && !needs_casts(term_cast, in_fp32) && !needs_casts(model, in_fp32));
static_assert(!needs_casts(built<term_task>(dtype::f64), {.master = dtype::f64, .compute = dtype::f64}));

/// The types of the operands of every GEMM.
bool has_equal_operands(program const& p) {
  for (auto const& n : p.nodes)
    if (n.kind == node_kind::call && n.op->gemm_operands == 0b11)
      if (p.values[n.inputs[0].value].type != p.values[n.inputs[1].value].type) return false;
  return true;
}

} // namespace

TEST_CASE("mixed precision: every type is one that the ops accept") {
  for (auto const& p : {matrices, with_biases, stored_narrow, trained, twice, of_vectors, trained_vectors, term_cast}) {
    CHECK(verify(p).ok());
    CHECK(has_equal_operands(p));
  }
}
