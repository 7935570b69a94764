#include "pass/programs.hpp"

#include <constrain/constrain.hpp>
#include <constrain/pass/divide.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <string>

// The part of a rank in a model whose layers are divided. Tests in comm/ check the results with several ranks.

using namespace constrain;

namespace {

constexpr int sequences = 2, tokens = 8;
template <auto model> using lm = task<model, causal_lm, micro_batch{.sequences = sequences, .tokens = tokens}>;
template <auto model>
constexpr program forward =
    entries<lm<model>, typename trainer<lm<model>>::policy_set>::step_program::without_dead_code;
template <auto model, int ranks> constexpr program part = divide(forward<model>, ranks);

constexpr value_info const& parameter_of(program const& p, std::string_view name) {
  int v = 0;
  while (!is_parameter(p.values[v].role) || p.text(p.values[v].name) != name) ++v;
  return p.values[v];
}
constexpr int calls_of(program const& p, op_info const& op) {
  int count = 0;
  for (auto const& n : p.nodes) count += calls(n, op) ? 1 : 0;
  return count;
}
constexpr int divided_parameters(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += info.divided >= 0 ? 1 : 0;
  return count;
}
constexpr bool is_divided(program const& p, std::string_view name, int dimension, shape local) {
  auto const& info = parameter_of(p, name);
  return info.divided == dimension && info.shape == local;
}

// GPT-2: queries, keys and values are divided part by part, and the vocabulary, whose table the embedding and the head
// share.
constexpr gpt2 small{.layers = 3, .heads = 4, .width = 16, .vocabulary = 30, .context = 8};
constexpr auto& two = part<small, 2>;
static_assert(two.failure.ok() && two.tensor_ranks == 2 && divided_parameters(two) == 7);
static_assert(is_divided(two, "block.attention.qkv.weight", 0, shape(24, 16)));
static_assert(is_divided(two, "block.attention.qkv.bias", 0, shape(24)));
static_assert(is_divided(two, "block.attention.projection.weight", 1, shape(16, 8)));
static_assert(is_divided(two, "block.attention.projection.bias", -1, shape(16)));
static_assert(is_divided(two, "block.mlp.up.weight", 0, shape(32, 16)));
static_assert(is_divided(two, "block.mlp.down.weight", 1, shape(16, 32)));
static_assert(is_divided(two, "token.weight", 0, shape(15, 16)));
static_assert(two.part_lists[parameter_of(two, "block.attention.qkv.weight").parts] == part_list{8, 8, 8});
static_assert(calls_of(two, info_of<op::tensor_copy>) == 3 && calls_of(two, info_of<op::tensor_sum>) == 3);
static_assert(calls_of(two, info_of<op::embedding>) == 0 && calls_of(two, info_of<op::embedding_part>) == 1);
static_assert(calls_of(two, info_of<op::cross_entropy>) == 0 && calls_of(two, info_of<op::cross_entropy_parts>) == 1);
static_assert(calls_of(two, info_of<op::tensor_gather>) == 0); // nothing in a step reads all logits

// Ops with `divide` do not begin a division: attention of parameters whose heads the ranks do not divide, and a slice
// across two parts of a parameter.
struct reads_parameters {
  constexpr value operator()(value tokens) const {
    auto const p = [&](char const* name) { return parameter(tokens, name, shape(1, 30, 24), role::weight, {}); };
    auto const learned = self_attention(p("q"), p("k"), p("v"), {.heads = 3, .causal = false});
    auto const parts = in_parts(parameter(tokens, "p", shape(30, 16), role::weight), {8, 8}, 1);
    auto const table = reshape(linear("from attention", learned, 24), shape(30, 24));
    auto const head = linear("from parts", slice(slice(parts, 1, 4, 8), 1, 0, 8), 24);
    auto const x = embedding(table, tokens);
    return linear(linear("down", gelu(linear("up", x, 48)), 24), head);
  }
};
constexpr auto& of_parameters = part<reads_parameters{}, 2>;
static_assert(of_parameters.failure.ok() && divided_parameters(of_parameters) == 3); // of the layers up and down

// Two ranks do not divide three heads, but the features of the feed-forward and the vocabulary.
constexpr auto& odd = part<gpt2{.layers = 3, .heads = 3, .width = 24, .vocabulary = 30, .context = 8}, 2>;
static_assert(odd.failure.ok() && divided_parameters(odd) == 4);
static_assert(is_divided(odd, "block.mlp.up.weight", 0, shape(48, 24)));
static_assert(is_divided(odd, "block.attention.qkv.weight", -1, shape(72, 24)));

// The vocabulary: the last rank may have fewer rows, but some. A head that shares no table has the role; a weight that
// something else reads, too, or with fewer rows than columns, stays whole.
constexpr auto& three = part<small, 3>;
static_assert(three.failure.ok() && divided_parameters(three) == 1);
static_assert(is_divided(three, "token.weight", 0, shape(10, 16)));
constexpr auto& four = part<gpt2{.layers = 3, .heads = 4, .width = 16, .vocabulary = 31, .context = 8}, 4>;
static_assert(is_divided(four, "token.weight", 0, shape(8, 16)) && parameter_of(four, "token.weight").unused == 1);
template <int kind> struct words {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = kind == 3 ? 9 : 31, .width = 8});
    if constexpr (kind == 1) return linear("head", x, 31, {.role = role::head});
    auto const table = parameter(x, "table", shape(31, 8), role::head, {.stddev = 0.1});
    if constexpr (kind == 2) return linear(x, silu(table)) + linear(x, table);
    else return linear(x, table);
  }
};
static_assert(divided_parameters(part<words<0>{}, 2>) == 2 &&
              is_divided(part<words<0>{}, 2>, "table", 0, shape(16, 8)));
static_assert(divided_parameters(part<words<1>{}, 2>) == 3 &&
              is_divided(part<words<1>{}, 2>, "head.bias", 0, shape(16)));
static_assert(divided_parameters(part<words<2>{}, 2>) == 1 &&
              is_divided(part<words<2>{}, 2>, "table", -1, shape(31, 8)));
static_assert(is_divided(part<words<3>{}, 5>, "token.weight", 0, shape(2, 8)));
static_assert(is_divided(part<words<3>{}, 8>, "token.weight", -1, shape(9, 8))); // one rank would have no row

// Refused: more ranks than heads, in attention; features that no layer can divide.
template <template <diagnosis> class sentence> constexpr bool refuses(program const& p, op_label const* op) {
  auto const& d = p.failure;
  return d.refusal == refusal_with<sentence>() && d.op == op && d.held == layout::divided &&
         d.needed == layout::replicated;
}
static_assert(refuses<op::attention::fewer_heads_than_ranks>(part<small, 8>, info_of<op::flash_attention>.label));
static_assert(part<small, 8>.failure.expected == 8 && part<small, 8>.failure.got == 4);
constexpr gpt2 few_words{.layers = 3, .heads = 4, .width = 16, .vocabulary = 15, .context = 8};
static_assert(refuses<refusals::no_features_to_divide>(part<few_words, 3>, nullptr));
static_assert(part<few_words, 3>.failure.expected == 3);
static_assert(divided_parameters(part<small, 1>) == 0 && part<small, 1>.failure.ok());

// A list of one part is divided, too: the parts of a rank's range cover the range.
struct one_part {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 7, .width = 8});
    auto const down = in_parts(parameter(x, "down", shape(8, 16), role::weight), {16}, 1);
    return linear("head", linear(gelu(linear("up", x, 16, {.parts = {16}})), down), 7);
  }
};
constexpr bool is_one_part(std::string_view name, int dimension, shape local) {
  auto const& p = part<one_part{}, 2>;
  auto const& info = parameter_of(p, name);
  auto const& extents = p.parts_along(info, info.shape, dimension).extents;
  return is_divided(p, name, dimension, local) && extents.size() == 1 && extents[0] == local.extent[dimension];
}
static_assert(is_one_part("up.weight", 0, shape(8, 8)) && is_one_part("down", 1, shape(8, 8)));

// Attention with fewer heads than ranks is not refused if a later op needs all features, and so prevents its division.
template <bool is_normed> struct few_heads {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 32, .width = 16});
    auto const y = self_attention(linear("qkv", x, 48, {.parts = {16, 16, 16}}), {.heads = 2});
    return linear("head", linear("projection", is_normed ? layer_norm("norm", y) : y, 16), 32, {.role = role::head});
  }
};
static_assert(refuses<op::attention::fewer_heads_than_ranks>(part<few_heads<false>{}, 4>,
                                                             info_of<op::flash_attention>.label));
constexpr auto& normed = part<few_heads<true>{}, 4>;
static_assert(normed.failure.ok() && is_divided(normed, "qkv.weight", -1, shape(48, 16)));
static_assert(is_divided(normed, "token.weight", 0, shape(8, 16)) &&
              is_divided(normed, "head.weight", 0, shape(8, 16)));

// A layer whose result the model returns is not divided, so that `predict`, which returns it to the host, divides the
// same layers as a step with an objective that has layers.
struct features {
  constexpr value operator()(value ids) const {
    return linear("up", embedding("token", ids, {.vocabulary = 32, .width = 8}), 32);
  }
};
struct head_loss {
  constexpr value operator()(value h, value labels) const { return cross_entropy(linear("head", gelu(h), 33), labels); }
};
constexpr auto divided_entry(entry e) {
  return divide(task<features{}, head_loss, micro_batch{.sequences = 2, .tokens = tokens}>::build(e, dtype::f32), 2);
}
constexpr auto divided_step = divided_entry(entry::step), divided_predict = divided_entry(entry::predict);
static_assert(is_divided(divided_step, "up.weight", -1, shape(32, 8)));
static_assert(is_divided(divided_step, "token.weight", 0, shape(16, 8)));
static_assert(detail::shares_persistent_values(divided_predict, divided_step));

// Columns of logits that the last rank does not use are 0. An op may have no finite derivative there, so it reads
// gathered logits, without these columns. `soft_cap` has one.
struct root {
  template <class real> static real forward(real x) { return std::sqrt(x); }
  template <class real> static real gradient(real x, real, real dy) { return dy / (2 * std::sqrt(x)); }
};
template <int classes, bool is_capped> struct with_root {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = classes, .width = 8});
    auto const logits = linear("head", x, classes, {.role = role::head});
    return is_capped ? soft_cap(logits, 30) : elementwise<root>(logits);
  }
};
template <int classes, bool is_capped>
constexpr int gathers = calls_of(part<with_root<classes, is_capped>{}, 2>, info_of<op::tensor_gather>);
static_assert(gathers<33, false> == 1 && gathers<34, false> == 0 && gathers<33, true> == 0);

/// A linear layer with scratch in the shape of its weight.
struct linear_with_scratch : op::linear {
  static constexpr char const* name = "linear_with_scratch";
  static constexpr char const* layouts = "...i, oi -> ...o, -";
  static constexpr unsigned workspace = 0b10;
  static constexpr inferred infer(operand_types const& in) {
    return op::linear::infer(in).and_also(in[1].type, in[1].shape);
  }
};
struct with_scratch {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 7, .width = 8});
    auto const weight = parameter(x, "weight", shape(8, 16), role::weight, {.stddev = 0.1});
    return linear("head", emit<linear_with_scratch>({gelu(linear("up", x, 16)), weight}), 7);
  }
};
static_assert(is_divided(part<with_scratch{}, 2>, "weight", 1, shape(8, 8)) && verify(part<with_scratch{}, 2>).ok());

// Three layers of one value read one copy; both operands of `*` are divided, and a layer can be read twice.
struct gated {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 30, .width = 8});
    auto const up = linear("up", x, 12), gate = linear("gate", x, 12);
    return linear("head", linear("down", silu(gate) * up + gate, 8, {.bias = false}), 30);
  }
};
constexpr auto& halves = part<gated{}, 2>;
static_assert(divided_parameters(halves) == 6 && calls_of(halves, info_of<op::tensor_copy>) == 1);
static_assert(is_divided(halves, "up.bias", 0, shape(6)) && is_divided(halves, "down.weight", 1, shape(8, 6)));
static_assert(is_divided(halves, "head.weight", -1, shape(30, 8)));

/// A linear layer that reads one more value after the bias.
struct linear_with_extra : op::linear {
  static constexpr char const* name = "linear_with_extra";
  static constexpr void gradient(backward& b) {
    op::linear::gradient(b);
    b.emit<op::linear_bias_gradient>({b.gradient()}, {2});
  }
};

/// A linear layer without a bias that reads one more value.
struct linear_with_scale : op::linear {
  static constexpr char const* name = "linear_with_scale";
  static constexpr char const* layouts = "...i, oi, - -> ...o";
  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape.with_features(in[1].shape.extent[0]));
  }
};

/// A linear layer without a bias that drops weights at random.
struct drop_connect : op::linear {
  static constexpr char const* name = "drop_connect";
  static constexpr char const* layouts = "...i, oi -> ...o";
  static constexpr bool draws_random = true;
};

/// A linear layer that adds a value of the shape of its result.
struct linear_plus : op::linear {
  static constexpr char const* name = "linear_plus";
  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape.with_features(in[1].shape.extent[0]));
  }
  static constexpr void gradient(backward& b) {
    b.emit<op::linear_input_gradient>({b.gradient(), b.input(1)}, {0});
    b.emit<op::linear_weight_gradient>({b.gradient(), b.input(0)}, {1});
    b.add(2, b.gradient());
  }
};
/// A linear layer that always has a bias.
struct affine : op::linear {
  static constexpr char const* name = "affine";
  static constexpr inferred infer(operand_types const& in) {
    bool const fits = in[2].shape == shape(in[1].shape.extent[0]);
    return fits ? op::linear::infer(in) : inferred::failure<op::widths_differ>(in[1].shape.extent[0], 0);
  }
};

// Nothing is divided: a layer with a reader that needs all features, or with an undivided operand, or whose weight
// another layer reads; a slice through the middle of a part; a loop-carried value; a layer with a bias that is not its
// last operand, which each rank would add; a layer with another operand, of whose gradient a rank would have a part; a
// layer that draws random numbers, as the first or the second of two layers; a layer that adds what is not a vector, or
// that needs the vector that it adds.
template <int kind> struct kept {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 7, .width = 8});
    auto const up = [&] { return linear("up", x, 8); };
    auto const down = [](value y) { return linear("head", layer_norm("norm", linear("down", y, 8)), 7); };
    if constexpr (kind == 0) return down(layer_norm("first", up()));
    else if constexpr (kind == 1) return down(up() * x);
    else if constexpr (kind == 2) {
      auto const shared = parameter(x, "shared", shape(8, 8), role::weight, {.stddev = 0.1});
      return down(linear(linear(x, shared), shared));
    } else if constexpr (kind == 3) return down(slice(up(), 2, 2, 4));
    else if constexpr (kind == 4) return down(repeat("block", 2, x, [](value h) { return linear("square", h, 8); }));
    else if constexpr (kind == 6) {
      auto const weight = parameter(x, "weight", shape(7, 8), role::weight, {.stddev = 0.1});
      return emit<linear_with_scale>({up(), weight, parameter(x, "scale", shape(7), role::norm)}, {});
    } else if constexpr (kind == 7 || kind == 8) {
      auto const weight = parameter(x, "weight", shape(8, 8), role::weight, {.stddev = 0.1});
      return kind == 7 ? linear("head", emit<drop_connect>({x, weight}, {}), 7)
                       : emit<drop_connect>({up(), weight}, {});
    } else if constexpr (kind == 9 || kind == 10) {
      auto const weight = parameter(x, "weight", shape(8, 8), role::weight, {.stddev = 0.1});
      return kind == 9 ? emit<linear_plus>({up(), weight, x}, {})
                       : emit<affine>({up(), weight, parameter(x, "bias", shape(8), role::bias)}, {});
    } else {
      auto const weight = parameter(x, "weight", shape(7, 8), role::weight, {.stddev = 0.1});
      auto const bias = parameter(x, "bias", shape(7), role::bias);
      return emit<linear_with_extra>({up(), weight, bias, x}, {});
    }
  }
};
template <int kind> constexpr bool stops(op_label const* op) {
  return refuses<refusals::nothing_is_divided>(part<kept<kind>{}, 2>, op);
}
static_assert(stops<0>(info_of<op::layer_norm>.label));
static_assert(stops<1>(info_of<op::multiply>.label));
static_assert(stops<2>(info_of<op::layer_norm>.label));
static_assert(stops<3>(info_of<op::slice>.label));
static_assert(stops<4>(info_of<op::copy>.label));
static_assert(stops<5>(info_of<linear_with_extra>.label));
static_assert(stops<6>(info_of<linear_with_scale>.label));
static_assert(refuses<refusals::no_features_to_divide>(part<kept<7>{}, 2>, nullptr));
static_assert(stops<8>(info_of<drop_connect>.label));
static_assert(stops<9>(info_of<linear_plus>.label));
static_assert(stops<10>(info_of<affine>.label));

/// A linear layer with a second output.
struct linear_twice : op::linear {
  static constexpr char const* name = "linear_twice";
  static constexpr char const* layouts = "...i, oi -> ...o, ...o";
  static constexpr inferred infer(operand_types const& in) {
    auto const y = op::linear::infer(in);
    return y.reason == why::nothing ? y.and_also(in[0].type, y.outputs[0].shape) : y;
  }
};
/// An element-wise op with a second output.
struct relu_and_mask {
  static constexpr char const* name = "relu_and_mask";
  static constexpr char const* layouts = "...f -> ...f, ...f";
  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, in[0].shape);
  }
};
/// y = f(x, mask), row by row.
struct masked {
  static constexpr char const* name = "masked";
  static constexpr char const* layouts = "..., ... -> ...";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

// Only output 0 is divided, so no call is divided that has another output which a node reads: in the middle, as the
// first and as the second layer.
enum place { middle, first, second };
template <place where, bool is_read> struct two_outputs {
  constexpr value operator()(value ids) const {
    auto const x = embedding("token", ids, {.vocabulary = 7, .width = 8});
    auto const weight = parameter(x, "weight", shape(8, 8), role::weight, {.stddev = 0.1});
    auto const both = where == middle  ? emit_all<relu_and_mask>({linear("up", x, 8)})
                      : where == first ? emit_all<linear_twice>({x, weight})
                                       : emit_all<linear_twice>({gelu(linear("up", x, 8)), weight});
    if (both.size() < 2) return x;
    auto const y = where == second ? layer_norm("norm", both[0]) : linear("down", both[0], 8);
    return is_read ? emit<masked>({layer_norm("last", y), both[1]}, {}) : y;
  }
};
template <place where, bool is_read>
constexpr program with_two = divide(
    task<two_outputs<where, is_read>{}, causal_lm, micro_batch{.sequences = 2, .tokens = tokens}>::build(entry::predict,
                                                                                                         dtype::f32),
    2);
static_assert(divided_parameters(with_two<middle, false>) == 3 && divided_parameters(with_two<first, false>) == 2);
static_assert(divided_parameters(with_two<second, false>) == 3);
static_assert(refuses<refusals::nothing_is_divided>(with_two<middle, true>, info_of<relu_and_mask>.label));
static_assert(refuses<refusals::nothing_is_divided>(with_two<first, true>, info_of<op::layer_norm>.label));
static_assert(refuses<refusals::nothing_is_divided>(with_two<second, true>, info_of<linear_twice>.label));

} // namespace

TEST_CASE("divide: a rank's nodes") {
  auto const text = print(halves);
  CAPTURE(text);
  auto const copy = text.find("tensor_copy"), up = text.find("linear"), sum = text.rfind("tensor_sum");
  CHECK(copy < up);
  CHECK(up < sum);
  CHECK(text.find("[2, 8, 6]") != std::string::npos); // half of the 12 features
  CHECK(text.find("[2, 8, 12]") == std::string::npos);
}
