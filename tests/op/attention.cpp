#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/qkv.hpp"

#include <cmath>
#include <string_view>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::attention>;
constexpr auto gradient_rule = ct::info_of<ct::op::attention_gradient>;
constexpr ct::attributes packed(ct::attention_options const& o) { return ct::pack(o); }
constexpr auto three_heads = packed({3, false}), three_heads_causal = packed({3, true});
constexpr auto eight_heads = packed({8, false, 2});
constexpr auto q_type = f32(shape(2, 5, 12)), scores_type = f32(shape(2, 3, 5, 5));
constexpr auto outputs = rule.infer(types({q_type, q_type, q_type}), three_heads).outputs;
static_assert(outputs.size() == 2 && outputs[0] == q_type && outputs[1] == scores_type);
constexpr auto flat_type = f32(shape(5, 12));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(rule.infer(types({flat_type, flat_type, flat_type}),
                                                                     three_heads),
                                                          3, 2));
constexpr auto of_heads(ct::attention_options const& o) {
  return rule.infer(types({q_type, q_type, q_type}), packed(o));
}
using attention = ct::op::attention;
static_assert(refuses<attention::heads_do_not_divide_the_width>(of_heads({5}), 12, 5));
static_assert(refuses<attention::heads_do_not_divide_the_width>(of_heads({0}), 12, 0));
static_assert(refuses<attention::key_value_heads_do_not_divide_the_heads>(of_heads({6, true, 4}), 6, 4));
static_assert(refuses<attention::key_value_heads_do_not_divide_the_heads>(of_heads({6, true, 12}), 6, 12));
static_assert(refuses<attention::key_value_heads_do_not_divide_the_heads>(of_heads({6, true, -2}), 6, -2));
static_assert(refuses<attention::keys_or_values_do_not_fit_the_queries>(of_heads({6, true, 3}), 6, 12));
static_assert(of_heads({6, true, 6}).outputs.size() == 2);
constexpr auto with_keys(ct::operand_type k, ct::operand_type v) {
  return rule.infer(types({q_type, k, v}), three_heads);
}
static_assert(refuses<attention::keys_or_values_do_not_fit_the_queries>(with_keys(q_type, f32(shape(2, 5, 4))), 12, 4));
static_assert(refuses<attention::keys_or_values_do_not_fit_the_queries>(with_keys(f32(shape(2, 4, 12)), q_type), 5, 4));
static_assert(refuses<attention::keys_or_values_do_not_fit_the_queries>(with_keys(flat_type, q_type), 3, 2));
constexpr ct::operand_type in_f64 = {ct::dtype::f64, shape(2, 5, 12)};
static_assert(refuses<attention::keys_or_values_of_another_type>(with_keys(q_type, in_f64), 0, 0));
static_assert(refuses<attention::keys_or_values_of_another_type>(with_keys(in_f64, q_type), 0, 0));
static_assert(refuses<ct::op::integers_instead_of_floats>(with_keys(q_type, i32(shape(2, 5, 12))), 0, 2));
constexpr auto lengths_type = i32(shape(2));
constexpr auto with_lengths(ct::operand_type lengths) {
  return rule.infer(types({q_type, q_type, q_type, lengths}), three_heads);
}
static_assert(with_lengths(lengths_type).outputs == outputs);
static_assert(refuses<attention::lengths_do_not_fit>(with_lengths(i32(shape(2, 5))), 2, 10));
static_assert(refuses<attention::lengths_do_not_fit>(with_lengths(f32(shape(2))), 2, 2));
constexpr auto gradients =
    gradient_rule.infer(types({q_type, q_type, q_type, q_type, scores_type}), three_heads).outputs;
static_assert(gradients.size() == 4 && gradients[0] == q_type && gradients[1] == q_type && gradients[2] == q_type &&
              gradients[3] == scores_type);
static_assert(gradient_rule.workspace == 0b1000);

// Eight heads of queries and two of keys and values, 3 wide.
constexpr auto many_type = f32(shape(2, 5, 24)), few_type = f32(shape(2, 5, 6)), many_scores = f32(shape(2, 8, 5, 5));
static_assert(rule.infer(types({many_type, few_type, few_type}), eight_heads).outputs[0] == many_type);
static_assert(rule.infer(types({many_type, few_type, few_type}), eight_heads).outputs[1] == many_scores);
constexpr auto few_gradients =
    gradient_rule.infer(types({many_type, many_type, few_type, few_type, many_scores}), eight_heads).outputs;
static_assert(few_gradients[0] == many_type && few_gradients[1] == few_type && few_gradients[2] == few_type);

// Queries, keys and values side by side.
constexpr auto parts_of(ct::operand_type qkv, ct::attention_options const& o) {
  return ct::detail::shapes_in_qkv(types({qkv}), o);
}
constexpr auto parts = parts_of(f32(shape(2, 5, 36)), {8, false, 2}).outputs;
static_assert(parts.size() == 3 && parts[0] == many_type && parts[1] == few_type && parts[2] == few_type);
static_assert(parts_of(f32(shape(2, 5, 36)), {3}).outputs[2] == q_type);
static_assert(refuses<attention::qkv_width_is_not_a_multiple_of_three>(parts_of(f32(shape(2, 5, 35)), {3}), 3, 35));
static_assert(refuses<attention::qkv_does_not_fit_the_heads>(parts_of(f32(shape(2, 5, 35)), {8, false, 2}), 12, 35));
static_assert(refuses<attention::key_value_heads_do_not_divide_the_heads>(parts_of(f32(shape(2, 5, 36)), {8, false, 3}),
                                                                          8, 3));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(parts_of(f32(shape(5, 36)), {3}), 3, 2));
static_assert(refuses<ct::op::integers_instead_of_floats>(parts_of(i32(shape(2, 5, 36)), {3}), 0, 0));

// Forward two products of sequences * heads * tokens^2 * head width multiply-adds, backward four; half of that is all a
// causal attention needs.
constexpr double product = 2.0 * 2 * 3 * 5 * 5 * 4;
constexpr auto flops(ct::attributes const& a) {
  return rule.cost_of(types({q_type, q_type, q_type}), types({q_type, scores_type}), a).flops;
}
constexpr auto gradient_flops(ct::attributes const& a) {
  return gradient_rule
      .cost_of(types({q_type, q_type, q_type, q_type, scores_type}), types({q_type, q_type, q_type, scores_type}), a)
      .flops;
}
static_assert(flops(three_heads) == 2 * product && flops(three_heads_causal) == product);
static_assert(gradient_flops(three_heads) == 4 * product && gradient_flops(three_heads_causal) == 2 * product);
// The heads of the queries count, however few keys and values there are.
static_assert(rule.cost_of(types({many_type, few_type, few_type}), types({many_type, many_scores}), eight_heads)
                  .flops == 2 * (2.0 * 2 * 8 * 5 * 5 * 3));

struct model {
  bool causal;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
    return ct::linear("head", ct::self_attention(x, {.heads = 2, .causal = causal}), 5);
  }
};
// One qkv read by two attentions, one head as wide as the model.
struct shared_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("qkv", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 12);
    auto const y = ct::self_attention(x, {.heads = 1}) + ct::self_attention(x, {.heads = 4, .causal = false});
    return ct::linear("head", ct::dropout(y), 5);
  }
};

// Eight heads of queries and fewer of keys and values, from one matmul or from three.
template <int key_value_heads> struct grouped_model {
  bool fused, causal;
  constexpr ct::value operator()(ct::value tokens) const {
    constexpr int width = 16, key_width = 2 * key_value_heads;
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    ct::attention_options const options{.heads = 8, .causal = causal, .key_value_heads = key_value_heads};
    auto const y = fused ? ct::self_attention(ct::linear("qkv", x, width + 2 * key_width), options)
                         : ct::self_attention(ct::linear("q", x, width), ct::linear("k", x, key_width),
                                              ct::linear("v", x, key_width), options);
    return ct::linear("head", y, 5);
  }
};
template <int key_value_heads, bool fused, bool causal>
using grouped = ct::task<grouped_model<key_value_heads>{fused, causal}, ct::causal_lm,
                         ct::micro_batch{.sequences = 2, .tokens = 4}>;

// Attention on queries, keys and values inside one array, `of` its shape.
template <class real> struct attended {
  ct::attention_options options;
  ct::attributes attributes;
  array<real> dqkv, y, probabilities, dscores;

  attended(shape of, ct::attention_options const& o)
      : options(o), attributes(packed(o)), dqkv(of), y(qkv_operands<real>(dqkv[0], of, o).q().shape()),
        probabilities(shape(of.extent[0], o.heads, of.extent[1], of.extent[1])), dscores(probabilities.in().shape()) {}

  std::vector<real> const& forward(array<real> const& qkv) {
    qkv_operands<real const> const x(qkv[0], qkv.in().shape(), options);
    call_kernel<ct::op::attention>(ct::call{attributes, no_parameters}, x.q(), x.k(), x.v(), y.out(),
                                   probabilities.out());
    return y.values();
  }
  std::vector<real> const& backward(array<real> const& dy, array<real> const& qkv) {
    qkv_operands<real const> const x(qkv[0], qkv.in().shape(), options);
    qkv_operands<real> const dx(dqkv[0], qkv.in().shape(), options);
    call_kernel<ct::op::attention_gradient>(ct::call{attributes, no_parameters}, dy.in(), x.q(), x.k(), x.v(),
                                            probabilities.in(), dx.q(), dx.k(), dx.v(), dscores.out());
    return dqkv.values();
  }
};

} // namespace

TEST_CASE("attention: gradients, causal and not") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::attention::reference>();
  check_gradients<ct::task<model{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::attention::reference>();
}
TEST_CASE("attention: gradients of queries, keys and values that are used twice") {
  check_gradients<ct::task<shared_model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::attention::reference, ct::accumulate<2>>();
}
TEST_CASE("attention: gradients of one sequence of one token") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 1}>,
                  ct::attention::reference, ct::accumulate<2>>();
}

TEST_CASE("attention: gradients of keys and values that several heads share") {
  check_gradients<grouped<2, true, true>, ct::attention::reference>();
  check_gradients<grouped<2, false, false>, ct::attention::reference, ct::accumulate<2>>();
  check_gradients<grouped<1, true, false>, ct::attention::reference>();
  check_gradients<grouped<1, false, true>, ct::attention::reference>();
}

TEST_CASE_TEMPLATE("attention: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  for (bool causal : {false, true}) {
    std::string const name = causal ? "attention_causal" : "attention";
    CAPTURE(name);
    array<real> const qkv(shape(2, 5, 36), f.reals(name + ".qkv")), dy(shape(2, 5, 12), f.reals(name + ".dy"));
    attended<real> a(shape(2, 5, 36), {3, causal});
    CHECK(relative_error(a.forward(qkv), f.reals(name + ".y")) < tolerance<real>);
    CHECK(relative_error(a.backward(dy, qkv), f.reals(name + ".dqkv")) < tolerance<real>);
    // Each row of the probabilities is a distribution over what the token sees.
    for (std::size_t row = 0; row < 2 * 3 * 5; ++row) {
      double sum = 0;
      for (std::size_t s = 0; s < 5; ++s) {
        sum += static_cast<double>(a.probabilities[row * 5 + s]);
        if (causal && s > row % 5) CHECK(a.probabilities[row * 5 + s] == 0);
      }
      CHECK(sum == doctest::Approx(1));
    }
  }
}

TEST_CASE_TEMPLATE("attention: causal results do not depend on what comes later", real, float, double) {
  auto qkv = array<real>::random(shape(1, 9, 24), 1);
  attended<real> before(shape(1, 9, 24), {2, true}), after(shape(1, 9, 24), {2, true});
  before.forward(qkv);
  for (std::size_t i = 5 * 24; i < 9 * 24; ++i) qkv[i] = 1000; // tokens 5 to 8
  after.forward(qkv);
  for (std::size_t i = 0; i < 5 * 8; ++i) CHECK(after.y[i] == before.y[i]);
}

TEST_CASE_TEMPLATE("attention: large scores do not overflow", real, float, double) {
  auto const qkv = array<real>::random(shape(1, 6, 12), 1, 1000), dy = array<real>::random(shape(1, 6, 4), 2);
  attended<real> a(shape(1, 6, 12), {2, true});
  for (auto y : a.forward(qkv)) CHECK(std::isfinite(y));
  for (auto g : a.backward(dy, qkv)) CHECK(std::isfinite(g));
}

TEST_CASE_TEMPLATE("attention: bit-identical on any number of threads", real, float, double) {
  if (std::is_same_v<real, float> && ct::gemm_provider() != std::string_view("built-in")) return;
  auto const check = [](shape s, ct::attention_options const& o) {
    auto const qkv = array<real>::random(s, 1);
    auto const dy = array<real>::random(qkv_operands<real const>(qkv[0], s, o).q().shape(), 2);
    check_same_on_all_threads([&] { return attended<real>(s, o).forward(qkv); });
    check_same_on_all_threads([&] {
      attended<real> a(s, o);
      a.forward(qkv);
      return a.backward(dy, qkv);
    });
  };
  check(shape(3, 37, 3 * 34), {2});            // six heads to share out
  check(shape(1, 130, 3 * 40), {1});           // one, which only the products can share out
  check(shape(3, 37, 12 * 10), {8, true, 2});  // six heads of keys and values
  check(shape(1, 70, 10 * 10), {8, false, 1}); // one
}

TEST_CASE_TEMPLATE("attention: heads that share keys and values, as PyTorch", real, float, double) {
  fixture const f("attention.safetensors");
  for (std::string const name : {"two", "one"})
    for (bool causal : {false, true}) {
      auto const expected = [&](std::string const& what) { return f.reals(name + (causal ? ".causal." : ".") + what); };
      int const shared = name == "two" ? 2 : 1;
      CAPTURE(shared);
      CAPTURE(causal);
      auto const options = packed({8, causal, shared});
      ct::call const c{options, no_parameters};
      shape const many(2, 5, 16), few(2, 5, 2 * shared), scores(2, 8, 5, 5);
      array<real> const q(many, f.reals(name + ".q")), k(few, f.reals(name + ".k")), v(few, f.reals(name + ".v"));
      array<real> const dy(many, f.reals(name + ".dy"));
      array<real> y(many), p(scores), dq(many), dk(few), dv(few), ds(scores);
      call_kernel<ct::op::attention>(c, q.in(), k.in(), v.in(), y.out(), p.out());
      call_kernel<ct::op::attention_gradient>(c, dy.in(), q.in(), k.in(), v.in(), p.in(), dq.out(), dk.out(), dv.out(),
                                              ds.out());
      CHECK(relative_error(y.values(), expected("y")) < tolerance<real>);
      CHECK(relative_error(dq.values(), expected("dq")) < tolerance<real>);
      CHECK(relative_error(dk.values(), expected("dk")) < tolerance<real>);
      CHECK(relative_error(dv.values(), expected("dv")) < tolerance<real>);
    }
}

TEST_CASE_TEMPLATE("attention: bit-identical from strided and from contiguous operands", real, float, double) {
  for (int shared : {8, 4, 1}) {
    CAPTURE(shared);
    ct::attention_options const o{8, true, shared};
    shape const s(2, 9, (8 + 2 * shared) * 5);
    auto const qkv = array<real>::random(s, 1), dy = array<real>::random(shape(2, 9, 40), 2);
    attended<real> strided(s, o);
    strided.forward(qkv), strided.backward(dy, qkv);
    using parts_of_inputs = qkv_operands<real const>;
    parts_of_inputs const x(qkv[0], s, o), dx(strided.dqkv[0], s, o);
    auto const q = parts_of_inputs::contiguous(x.q()), k = parts_of_inputs::contiguous(x.k());
    auto const v = parts_of_inputs::contiguous(x.v());
    shape const scores(2, 8, 9, 9);
    array<real> y(q.in().shape()), p(scores), dq(q.in().shape()), dk(k.in().shape()), dv(k.in().shape()), ds(scores);
    auto const options = packed(o);
    ct::call const c{options, no_parameters};
    call_kernel<ct::op::attention>(c, q.in(), k.in(), v.in(), y.out(), p.out());
    call_kernel<ct::op::attention_gradient>(c, dy.in(), q.in(), k.in(), v.in(), p.in(), dq.out(), dk.out(), dv.out(),
                                            ds.out());
    CHECK(same_bits(y.values(), strided.y.values()));
    CHECK(same_bits(dq.values(), parts_of_inputs::contiguous(dx.q()).values()));
    CHECK(same_bits(dk.values(), parts_of_inputs::contiguous(dx.k()).values()));
    CHECK(same_bits(dv.values(), parts_of_inputs::contiguous(dx.v()).values()));
  }
}

TEST_CASE_TEMPLATE("attention: with lengths, each sequence as if it ended there", real, float, double) {
  shape const s(3, 5, 12);
  auto const qkv = array<real>::random(s, 1), dy = array<real>::random(shape(3, 5, 4), 2);
  array<std::int32_t> const lengths(shape(3), {5, 2, 0});
  for (bool causal : {false, true}) {
    CAPTURE(causal);
    attended<real> a(s, {2, causal}), full(s, {2, causal});
    qkv_operands<real const> const x(qkv[0], s, a.options);
    call_kernel<ct::op::attention>(ct::call{a.attributes, no_parameters}, x.q(), x.k(), x.v(), lengths.in(), a.y.out(),
                                   a.probabilities.out());
    a.backward(dy, qkv);
    full.forward(qkv), full.backward(dy, qkv);
    for (std::size_t i = 0; i < 5 * 4; ++i) CHECK(a.y[i] == full.y[i]); // not masked
    for (std::size_t i = 0; i < 5 * 12; ++i) CHECK(a.dqkv[i] == full.dqkv[i]);
    // Of two tokens: queries at or beyond the length attend to the same keys.
    attended<real> two(shape(1, 2, 12), {2, causal});
    std::vector<real> const start(qkv.values().begin() + 5 * 12, qkv.values().begin() + 7 * 12);
    two.forward(array<real>(shape(1, 2, 12), start));
    for (std::size_t i = 0; i < 2 * 4; ++i)
      CHECK(std::abs(static_cast<double>(a.y[5 * 4 + i] - two.y[i])) < tolerance<real>);
    for (std::size_t key = 2; key < 5; ++key) // no gradient reaches masked keys and values
      for (std::size_t i = 4; i < 12; ++i) CHECK(a.dqkv[(5 + key) * 12 + i] == 0);
    for (std::size_t i = 2 * 5 * 4; i < 3 * 5 * 4; ++i) CHECK(a.y[i] == 0); // nothing to attend to
    for (std::size_t i = 2 * 5 * 12; i < 3 * 5 * 12; ++i) CHECK(a.dqkv[i] == 0);
  }
}

TEST_CASE_TEMPLATE("attention: with lengths, heads that share keys and values as heads with copies of them", real,
                   float, double) {
  shape const many(3, 5, 8), few(3, 5, 4), scores(3, 4, 5, 5);
  auto const q = array<real>::random(many, 1), k = array<real>::random(few, 2), v = array<real>::random(few, 3);
  array<std::int32_t> const lengths(shape(3), {5, 2, 0});
  array<real> copied_k(many), copied_v(many), y(many), expected(many), p(scores);
  for (std::size_t i = 0; i < copied_k.values().size(); ++i) {
    auto const from = i / 8 * 4 + i % 8 / 4 * 2 + i % 2; // heads 0 and 1 share the first head, 2 and 3 the second
    copied_k[i] = k[from], copied_v[i] = v[from];
  }
  for (bool causal : {false, true}) {
    auto const shared = packed({4, causal, 2}), own = packed({4, causal});
    call_kernel<ct::op::attention>(ct::call{shared, no_parameters}, q.in(), k.in(), v.in(), lengths.in(), y.out(),
                                   p.out());
    call_kernel<ct::op::attention>(ct::call{own, no_parameters}, q.in(), copied_k.in(), copied_v.in(), lengths.in(),
                                   expected.out(), p.out());
    CHECK(same_bits(y.values(), expected.values()));
  }
}
