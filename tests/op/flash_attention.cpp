#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/quadratic_attention.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::flash_attention>;
constexpr auto gradient_rule = ct::info_of<ct::op::flash_attention_gradient>;
constexpr ct::attributes packed(ct::attention_options const& o) { return ct::pack(o); }
constexpr auto three_heads = packed({3, false}), three_heads_causal = packed({3, true});
constexpr auto q_type = f32(shape(2, 5, 12)), rows_type = f32(shape(2, 3, 5));
constexpr auto outputs = rule.infer(types({q_type, q_type, q_type}), three_heads).outputs;
static_assert(outputs.size() == 2 && outputs[0] == q_type && outputs[1] == rows_type);
constexpr auto flat_type = f32(shape(5, 12));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(rule.infer(types({flat_type, flat_type, flat_type}),
                                                                     three_heads),
                                                          3, 2));
constexpr auto of_heads(ct::attention_options const& o) {
  return rule.infer(types({q_type, q_type, q_type}), packed(o));
}
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(of_heads({5}), 12, 5));
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(of_heads({0}), 12, 0));
static_assert(refuses<ct::op::attention::key_value_heads_do_not_divide_the_heads>(of_heads({6, true, 4}), 6, 4));
static_assert(refuses<ct::op::attention::keys_or_values_do_not_fit_the_queries>(of_heads({6, true, 3}), 6, 12));
constexpr auto gradients =
    gradient_rule.infer(types({q_type, q_type, q_type, q_type, q_type, rows_type}), three_heads).outputs;
static_assert(gradients.size() == 4 && gradients[0] == q_type && gradients[1] == q_type && gradients[2] == q_type &&
              gradients[3] == f32(shape(2, 5, 3)));
static_assert(gradient_rule.workspace == 0b1000);
constexpr ct::operand_type narrow_type{ct::dtype::bf16, shape(2, 5, 12)}, few_type{ct::dtype::bf16, shape(2, 5, 4)};
constexpr auto scratch_of(ct::operand_type q, ct::operand_type k, ct::attention_options const& o) {
  return gradient_rule.infer(types({q, q, k, k, q, f32(shape(2, o.heads, 5))}), packed(o)).outputs[3];
}
// If elements are too narrow for sums, the sums of dk and dv are stored beside the sums of the rows.
static_assert(scratch_of(narrow_type, narrow_type, {3}) == f32(shape(2, 5, 3 + 2 * 12)));
static_assert(scratch_of(narrow_type, few_type, {6, true, 2}) == f32(shape(2, 5, 6 + 2 * 4)));
static_assert(rule.infer(types({narrow_type, narrow_type, narrow_type}), three_heads).outputs[0].type ==
              ct::dtype::bf16);
static_assert(rule.infer(types({narrow_type, narrow_type, narrow_type}), three_heads).outputs[1] == rows_type);

// Bytes that forward and backward write beside y, dq, dk and dv, scratch and what is kept alike.
constexpr std::int64_t bytes_beside(std::int64_t tokens) {
  auto const q = f32(shape(1, tokens, 64));
  auto const kept = rule.infer(types({q, q, q}), packed({4, true})).outputs;
  auto const scratch = gradient_rule.infer(types({kept[0], q, q, q, kept[0], kept[1]}), packed({4, true})).outputs;
  return 4 * (kept[1].shape.elements() + scratch[3].shape.elements());
}
static_assert(bytes_beside(256) == 2 * 4 * 4 * 256);
static_assert(bytes_beside(8192) == 32 * bytes_beside(256));

// Forward two products of sequences * heads * tokens^2 * head width multiply-adds, backward five; half of that is all a
// causal attention needs.
constexpr double product = 2.0 * 2 * 3 * 5 * 5 * 4;
constexpr auto flops(ct::attributes const& a) {
  return rule.cost_of(types({q_type, q_type, q_type}), types({q_type, rows_type}), a).flops;
}
constexpr auto gradient_flops(ct::attributes const& a) {
  return gradient_rule
      .cost_of(types({q_type, q_type, q_type, q_type, q_type, rows_type}), types({q_type, q_type, q_type, rows_type}),
               a)
      .flops;
}
static_assert(flops(three_heads) == 2 * product && flops(three_heads_causal) == product);
static_assert(gradient_flops(three_heads) == 5 * product && gradient_flops(three_heads_causal) == 2.5 * product);

struct model {
  bool causal;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
    return ct::linear("head", ct::flash_attention(x, {.heads = 2, .causal = causal}), 5);
  }
};
// One qkv read by two attentions, one head as wide as the model.
struct shared_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("qkv", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 12);
    auto const y = ct::flash_attention(x, {.heads = 1}) + ct::flash_attention(x, {.heads = 4, .causal = false});
    return ct::linear("head", ct::dropout(y), 5);
  }
};

template <class T> using real_of = ct::arithmetic<T>;

// Eight heads of queries and fewer of keys and values.
template <int key_value_heads> struct grouped_model {
  bool causal;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 2 * (8 + 2 * key_value_heads)});
    auto const y = ct::flash_attention(x, {.heads = 8, .causal = causal, .key_value_heads = key_value_heads});
    return ct::linear("head", y, 5);
  }
};

// Flash attention on queries, keys and values inside one array, `of` its shape.
template <class T> struct flash {
  ct::attention_options options;
  ct::attributes attributes;
  std::vector<std::int32_t> lengths{}; // of the sequences, if they are padded
  array<T> dqkv, y;
  array<real_of<T>> logsumexp, scratch;

  flash(shape of, ct::attention_options const& o)
      : options(o), attributes(packed(o)), dqkv(of), y(qkv_operands<T>(dqkv[0], of, o).q().shape()),
        logsumexp(shape(of.extent[0], o.heads, of.extent[1])), scratch(scratch_shape()) {}

  shape scratch_shape() {
    auto const element = ct::dtype_of<T>;
    qkv_operands<T> const x(dqkv[0], dqkv.in().shape(), options);
    ct::operand_type const q{element, x.q().shape()}, k{element, x.k().shape()};
    ct::operand_type const rows{ct::dtype_of<real_of<T>>, logsumexp.in().shape()};
    return gradient_rule.infer(types({q, q, k, k, q, rows}), attributes).outputs[3].shape;
  }

  std::vector<T> const& forward(array<T> const& qkv) {
    qkv_operands<T const> const x(qkv[0], qkv.in().shape(), options);
    ct::call const c{attributes, no_parameters};
    if (lengths.empty()) call_kernel<ct::op::flash_attention>(c, x.q(), x.k(), x.v(), y.out(), logsumexp.out());
    else call_kernel<ct::op::flash_attention>(c, x.q(), x.k(), x.v(), padded().in(), y.out(), logsumexp.out());
    return y.values();
  }
  std::vector<T> const& backward(array<T> const& dy, array<T> const& qkv) {
    qkv_operands<T const> const x(qkv[0], qkv.in().shape(), options);
    qkv_operands<T> const dx(dqkv[0], qkv.in().shape(), options);
    ct::call const c{attributes, no_parameters};
    using op = ct::op::flash_attention_gradient;
    if (lengths.empty())
      call_kernel<op>(c, dy.in(), x.q(), x.k(), x.v(), y.in(), logsumexp.in(), dx.q(), dx.k(), dx.v(), scratch.out());
    else
      call_kernel<op>(c, dy.in(), x.q(), x.k(), x.v(), y.in(), logsumexp.in(), padded().in(), dx.q(), dx.k(), dx.v(),
                      scratch.out());
    return dqkv.values();
  }
  array<std::int32_t> padded() const { return {shape(static_cast<std::int64_t>(lengths.size())), lengths}; }
};

// No element is left as it was: a 16-bit array is poisoned with 77, the others with NaN, which no comparison passes.
// `width`: of a head. `padded`: whether the sequences have lengths; then keys and values of the padding are NaN.
template <class T>
void check_against_quadratic(std::int64_t sequences, std::int64_t tokens, std::int64_t width,
                             ct::attention_options const& o, bool padded = false) {
  shape const of(sequences, tokens, (o.heads + 2 * ct::detail::key_value_heads(o)) * width);
  auto const qkv = array<T>::random(of, 1), dy = array<T>::random(of.with_features(o.heads * width), 2);
  flash<T> a(of, o);
  if (padded) a.lengths = some_lengths(sequences, tokens);
  quadratic<real_of<T>> const expected(qkv, dy, o, a.lengths);
  auto const read = padded ? without_padding(qkv, o, a.lengths) : qkv;
  CAPTURE(tokens);
  CAPTURE(width);
  CAPTURE(o.heads);
  CAPTURE(o.key_value_heads);
  CAPTURE(o.causal);
  CHECK(relative_error(in_double(a.forward(read)), expected.y) < tolerance<T>);
  CHECK(relative_error(in_double(a.backward(dy, read)), expected.dqkv) < tolerance<T>);
  for (auto x : in_double(a.logsumexp.values())) CHECK(std::isfinite(x));
}

} // namespace

TEST_CASE("flash_attention: gradients, causal and not") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
  check_gradients<ct::task<model{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
}
TEST_CASE("flash_attention: gradients of queries, keys and values that are used twice") {
  check_gradients<ct::task<shared_model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::accumulate<2>>();
}
TEST_CASE("flash_attention: gradients of one sequence of one token") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 1}>,
                  ct::accumulate<2>>();
}

TEST_CASE("flash_attention: gradients of keys and values that several heads share") {
  check_gradients<ct::task<grouped_model<2>{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<grouped_model<2>{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<grouped_model<1>{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>,
                  ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("flash_attention: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  for (bool causal : {false, true}) {
    std::string const name = causal ? "attention_causal" : "attention";
    CAPTURE(name);
    array<real> const qkv(shape(2, 5, 36), f.reals(name + ".qkv")), dy(shape(2, 5, 12), f.reals(name + ".dy"));
    flash<real> a(shape(2, 5, 36), {3, causal});
    CHECK(relative_error(a.forward(qkv), f.reals(name + ".y")) < tolerance<real>);
    CHECK(relative_error(a.backward(dy, qkv), f.reals(name + ".dqkv")) < tolerance<real>);
  }
}

TEST_CASE_TEMPLATE("flash_attention: as the quadratic op, whatever the sizes", T, float, double, ct::float16,
                   ct::bfloat16) {
  for (bool causal : {false, true})
    for (int heads : {1, 2, 3})
      for (std::int64_t width : {1, 3, 16, 24, 64, 80})
        for (std::int64_t tokens : {1, 2, 7, 33, 64, 65, 130, 257})
          check_against_quadratic<T>(heads == 2 ? 2 : 1, tokens, width, {heads, causal});
}

TEST_CASE_TEMPLATE("flash_attention: heads wider than a tile", T, float, double, ct::float16, ct::bfloat16) {
  for (bool causal : {false, true})
    for (std::int64_t width : {128, 131, 300})
      for (std::int64_t tokens : {5, 70, 200}) check_against_quadratic<T>(1, tokens, width, {2, causal});
}

TEST_CASE_TEMPLATE("flash_attention: heads that share keys and values", T, float, double, ct::float16, ct::bfloat16) {
  for (bool causal : {false, true})
    for (int shared : {1, 2, 4})
      for (std::int64_t width : {3, 64, 131})
        for (std::int64_t tokens : {1, 7, 64, 65, 200})
          check_against_quadratic<T>(2, tokens, width, {4, causal, shared});
}

TEST_CASE_TEMPLATE("flash_attention: with lengths, as the quadratic op", T, float, double, ct::float16, ct::bfloat16) {
  for (bool causal : {false, true})
    for (std::int64_t width : {3, 64, 131})
      for (std::int64_t tokens : {1, 7, 64, 65, 200}) {
        check_against_quadratic<T>(5, tokens, width, {2, causal}, true);
        check_against_quadratic<T>(5, tokens, width, {4, causal, 2}, true);
      }
}

TEST_CASE_TEMPLATE("flash_attention: heads that share keys and values, as PyTorch", real, float, double) {
  fixture const f("attention.safetensors");
  for (std::string const name : {"two", "one"})
    for (bool causal : {false, true}) {
      auto const expected = [&](std::string const& what) { return f.reals(name + (causal ? ".causal." : ".") + what); };
      int const shared = name == "two" ? 2 : 1;
      CAPTURE(shared);
      CAPTURE(causal);
      auto const options = packed({8, causal, shared});
      ct::call const c{options, no_parameters};
      shape const many(2, 5, 16), few(2, 5, 2 * shared);
      array<real> const q(many, f.reals(name + ".q")), k(few, f.reals(name + ".k")), v(few, f.reals(name + ".v"));
      array<real> const dy(many, f.reals(name + ".dy"));
      array<real> y(many), logsumexp(shape(2, 8, 5)), dq(many), dk(few), dv(few), scratch(shape(2, 5, 8));
      call_kernel<ct::op::flash_attention>(c, q.in(), k.in(), v.in(), y.out(), logsumexp.out());
      call_kernel<ct::op::flash_attention_gradient>(c, dy.in(), q.in(), k.in(), v.in(), y.in(), logsumexp.in(),
                                                    dq.out(), dk.out(), dv.out(), scratch.out());
      CHECK(relative_error(y.values(), expected("y")) < tolerance<real>);
      CHECK(relative_error(dq.values(), expected("dq")) < tolerance<real>);
      CHECK(relative_error(dk.values(), expected("dk")) < tolerance<real>);
      CHECK(relative_error(dv.values(), expected("dv")) < tolerance<real>);
    }
}

TEST_CASE_TEMPLATE("flash_attention: bit-identical from strided and from contiguous operands", T, float, double,
                   ct::bfloat16) {
  for (int shared : {4, 2, 1})
    for (std::int64_t tokens : {9, 130}) {
      CAPTURE(shared);
      CAPTURE(tokens);
      ct::attention_options const o{4, true, shared};
      shape const s(2, tokens, (4 + 2 * shared) * 5);
      auto const qkv = array<T>::random(s, 1), dy = array<T>::random(shape(2, tokens, 20), 2);
      flash<T> strided(s, o), contiguous(s, o);
      strided.forward(qkv), strided.backward(dy, qkv);
      using parts = qkv_operands<T const>;
      parts const x(qkv[0], s, o), dx(strided.dqkv[0], s, o);
      auto const q = parts::contiguous(x.q()), k = parts::contiguous(x.k()), v = parts::contiguous(x.v());
      array<T> dq(q.in().shape()), dk(k.in().shape()), dv(k.in().shape());
      ct::call const c{contiguous.attributes, no_parameters};
      call_kernel<ct::op::flash_attention>(c, q.in(), k.in(), v.in(), contiguous.y.out(), contiguous.logsumexp.out());
      call_kernel<ct::op::flash_attention_gradient>(c, dy.in(), q.in(), k.in(), v.in(), contiguous.y.in(),
                                                    contiguous.logsumexp.in(), dq.out(), dk.out(), dv.out(),
                                                    contiguous.scratch.out());
      CHECK(same_bits(contiguous.y.values(), strided.y.values()));
      CHECK(same_bits(dq.values(), parts::contiguous(dx.q()).values()));
      CHECK(same_bits(dk.values(), parts::contiguous(dx.k()).values()));
      CHECK(same_bits(dv.values(), parts::contiguous(dx.v()).values()));
    }
}

TEST_CASE_TEMPLATE("flash_attention: logsumexp of the scaled scores", real, float, double) {
  shape const of(1, 70, 3 * 16);
  auto const qkv = array<real>::random(of, 1);
  flash<real> a(of, {1, true});
  a.forward(qkv);
  std::vector<double> expected;
  for (std::size_t t = 0; t < 70; ++t) {
    double sum = 0;
    for (std::size_t s = 0; s <= t; ++s) {
      double score = 0;
      for (std::size_t i = 0; i < 16; ++i) score += double(qkv[t * 48 + i]) * double(qkv[s * 48 + 16 + i]);
      sum += std::exp(score / 4);
    }
    expected.push_back(std::log(sum));
  }
  CHECK(relative_error(a.logsumexp.values(), expected) < tolerance<real>);
}

TEST_CASE_TEMPLATE("flash_attention: causal results do not depend on what comes later", real, float, double) {
  auto qkv = array<real>::random(shape(1, 99, 24), 1);
  flash<real> before(shape(1, 99, 24), {2, true}), after(shape(1, 99, 24), {2, true});
  before.forward(qkv);
  for (std::size_t i = 65 * 24; i < 99 * 24; ++i) qkv[i] = 1000; // tokens 65 to 98
  after.forward(qkv);
  for (std::size_t i = 0; i < 65 * 8; ++i) CHECK(after.y[i] == before.y[i]);
}

TEST_CASE_TEMPLATE("flash_attention: scores of 80 and -80 are right", T, float, double, ct::float16, ct::bfloat16) {
  // Small integers and a scale of 1/4: every score is exact in any order, so that none is better known than another.
  for (bool causal : {false, true}) {
    shape const of(2, 150, 3 * 2 * 16), y_shape(2, 150, 32);
    auto signs = array<T>::random(of, 3);
    auto const dy = array<T>::random(y_shape, 4);
    for (std::size_t i = 0; i < signs.values().size(); ++i) {
      auto const part = i % 96 / 32;
      auto const token = i / 96 % 150;
      // q is 5 everywhere, k is 4 or -4 but for one column: scores of 80, -80 and some around them.
      if (part == 0) signs[i] = T(5);
      if (part == 1) signs[i] = T(i % 16 == 3 ? float(token % 7) : token % 3 == 0 ? -4.0f : 4.0f);
    }
    flash<T> a(of, {2, causal});
    quadratic<real_of<T>> const expected(signs, dy, {2, causal});
    CHECK(relative_error(in_double(a.forward(signs)), expected.y) < tolerance<T>);
    CHECK(relative_error(in_double(a.backward(dy, signs)), expected.dqkv) < tolerance<T>);
  }
}

TEST_CASE_TEMPLATE("flash_attention: enormous scores do not overflow", real, float, double) {
  auto const qkv = array<real>::random(shape(1, 70, 12), 1, 1000), dy = array<real>::random(shape(1, 70, 4), 2);
  flash<real> a(shape(1, 70, 12), {2, true});
  for (auto y : a.forward(qkv)) CHECK(std::isfinite(y));
  for (auto g : a.backward(dy, qkv)) CHECK(std::isfinite(g));
}

TEST_CASE_TEMPLATE("flash_attention: bit-identical on any number of threads", T, float, double, ct::float16,
                   ct::bfloat16) {
  auto const check = [](shape s, ct::attention_options const& o) {
    auto const qkv = array<T>::random(s, 1);
    auto const dy = array<T>::random(qkv_operands<T const>(qkv[0], s, o).q().shape(), 2);
    check_same_on_all_threads([&] { return flash<T>(s, o).forward(qkv); });
    check_same_on_all_threads([&] {
      flash<T> a(s, o);
      a.forward(qkv);
      return a.backward(dy, qkv);
    });
  };
  check(shape(3, 37, 3 * 34), {2});            // six heads to share out
  check(shape(1, 430, 3 * 40), {1});           // one, which only its blocks can share out
  check(shape(3, 37, 12 * 10), {8, true, 2});  // six heads of keys and values
  check(shape(1, 130, 10 * 10), {8, true, 1}); // one
}
