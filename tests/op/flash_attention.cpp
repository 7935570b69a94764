#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::flash_attention>;
constexpr auto gradient_rule = ct::info_of<ct::op::flash_attention_gradient>;
constexpr ct::attributes packed(int heads, bool causal) { return ct::pack(ct::attention_options{heads, causal}); }
constexpr auto three_heads = packed(3, false), three_heads_causal = packed(3, true);
constexpr auto qkv_type = f32(shape(2, 5, 36)), y_type = f32(shape(2, 5, 12)), rows_type = f32(shape(2, 3, 5));
constexpr auto outputs = rule.infer(types({qkv_type}), three_heads).outputs;
static_assert(outputs.size() == 2 && outputs[0] == y_type && outputs[1] == rows_type);
static_assert(refuses<ct::op::axis_is_not_there>(rule.infer(types({f32(shape(5, 36))}), three_heads), 3, 2));
static_assert(refuses<ct::op::attention::qkv_is_not_three_times_the_width>(rule.infer(types({f32(shape(2, 5, 35))}),
                                                                                      three_heads),
                                                                           3, 35));
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(rule.infer(types({qkv_type}), packed(5, false)),
                                                                        12, 5));
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(rule.infer(types({qkv_type}), packed(0, false)),
                                                                        12, 0));
constexpr auto gradients = gradient_rule.infer(types({y_type, qkv_type, y_type, rows_type}), three_heads).outputs;
static_assert(gradients.size() == 2 && gradients[0] == qkv_type && gradients[1] == f32(shape(2, 5, 3)));
static_assert(gradient_rule.workspace == 0b10);
constexpr ct::operand_type narrow_type{ct::dtype::bf16, shape(2, 5, 36)},
    narrow_y_type{ct::dtype::bf16, shape(2, 5, 12)};
// Where elements are too narrow for sums, those of dk and dv lie beside the rows'.
static_assert(gradient_rule.infer(types({narrow_y_type, narrow_type, narrow_y_type, rows_type}), three_heads)
                  .outputs[1] == f32(shape(2, 5, 3 + 2 * 12)));
static_assert(rule.infer(types({narrow_type}), three_heads).outputs[0].type == ct::dtype::bf16);
static_assert(rule.infer(types({narrow_type}), three_heads).outputs[1] == rows_type);

// Bytes that forward and backward write beside y and dqkv, scratch and what is kept alike.
constexpr std::int64_t bytes_beside(std::int64_t tokens) {
  auto const qkv = f32(shape(1, tokens, 3 * 64));
  auto const kept = rule.infer(types({qkv}), packed(4, true)).outputs;
  auto const scratch = gradient_rule.infer(types({kept[0], qkv, kept[0], kept[1]}), packed(4, true)).outputs;
  return 4 * (kept[1].shape.elements() + scratch[1].shape.elements());
}
static_assert(bytes_beside(256) == 2 * 4 * 4 * 256);
static_assert(bytes_beside(8192) == 32 * bytes_beside(256));

// Forward two products of sequences * heads * tokens^2 * head width multiply-adds, backward five; half of that is all a
// causal attention needs.
constexpr double product = 2.0 * 2 * 3 * 5 * 5 * 4;
constexpr auto flops(ct::attributes const& a) {
  return rule.cost_of(types({qkv_type}), types({y_type, rows_type}), a).flops;
}
constexpr auto gradient_flops(ct::attributes const& a) {
  return gradient_rule.cost_of(types({y_type, qkv_type, y_type, rows_type}), types({qkv_type, rows_type}), a).flops;
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

template <class T> struct flash {
  ct::attributes options;
  array<T> y, dqkv;
  array<real_of<T>> logsumexp, scratch;

  flash(shape of, int heads, bool causal)
      : options(packed(heads, causal)), y(of.with_features(of.features() / 3)), dqkv(of),
        logsumexp(shape(of.extent[0], heads, of.extent[1])), scratch(scratch_shape(of, heads)) {}

  static shape scratch_shape(shape of, int heads) {
    auto const element = ct::dtype_of<T>, sum = ct::dtype_of<real_of<T>>;
    auto const dy = of.with_features(of.features() / 3);
    auto const rows = ct::operand_type{sum, shape(of.extent[0], heads, of.extent[1])};
    return gradient_rule.infer(types({{element, dy}, {element, of}, {element, dy}, rows}), packed(heads, false))
        .outputs[1]
        .shape;
  }

  std::vector<T> const& forward(array<T> const& qkv) {
    call_kernel<ct::op::flash_attention>(ct::call{options, no_parameters}, qkv.in(), y.out(), logsumexp.out());
    return y.values();
  }
  std::vector<T> const& backward(array<T> const& dy, array<T> const& qkv) {
    call_kernel<ct::op::flash_attention_gradient>(ct::call{options, no_parameters}, dy.in(), qkv.in(), y.in(),
                                                  logsumexp.in(), dqkv.out(), scratch.out());
    return dqkv.values();
  }
};

// The quadratic op on the same numbers.
template <class real> struct quadratic {
  std::vector<double> y, dqkv;

  template <class T> quadratic(array<T> const& qkv, array<T> const& dy, int heads, bool causal) {
    auto const s = qkv.in().shape();
    auto const options = packed(heads, causal);
    ct::call const c{options, no_parameters};
    array<real> const x(s, qkv.values()), g(dy.in().shape(), dy.values());
    array<real> result(g.in().shape()), dx(s), p(shape(s.extent[0], heads, s.extent[1], s.extent[1]));
    array<real> dp(p.in().shape());
    call_kernel<ct::op::attention>(c, x.in(), result.out(), p.out());
    call_kernel<ct::op::attention_gradient>(c, g.in(), x.in(), p.in(), dx.out(), dp.out());
    y.assign(result.values().begin(), result.values().end());
    dqkv.assign(dx.values().begin(), dx.values().end());
  }
};

template <class T> std::vector<double> in_double(std::vector<T> const& values) {
  std::vector<double> all;
  for (auto const& x : values) all.push_back(static_cast<double>(real_of<T>(x)));
  return all;
}

// No element is left as it was: a 16-bit array is poisoned with 77, the others with NaN, which no comparison passes.
template <class T> void check_against_quadratic(shape of, int heads, bool causal) {
  auto const qkv = array<T>::random(of, 1), dy = array<T>::random(of.with_features(of.features() / 3), 2);
  flash<T> a(of, heads, causal);
  quadratic<real_of<T>> const expected(qkv, dy, heads, causal);
  CAPTURE(of.extent[1]);
  CAPTURE(of.features() / 3 / heads);
  CAPTURE(heads);
  CAPTURE(causal);
  CHECK(relative_error(in_double(a.forward(qkv)), expected.y) < tolerance<T>);
  CHECK(relative_error(in_double(a.backward(dy, qkv)), expected.dqkv) < tolerance<T>);
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

TEST_CASE_TEMPLATE("flash_attention: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  for (bool causal : {false, true}) {
    std::string const name = causal ? "attention_causal" : "attention";
    CAPTURE(name);
    array<real> const qkv(shape(2, 5, 36), f.reals(name + ".qkv")), dy(shape(2, 5, 12), f.reals(name + ".dy"));
    flash<real> a(shape(2, 5, 36), 3, causal);
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
          check_against_quadratic<T>(shape(heads == 2 ? 2 : 1, tokens, 3 * heads * width), heads, causal);
}

TEST_CASE_TEMPLATE("flash_attention: heads wider than a tile", T, float, double, ct::float16, ct::bfloat16) {
  for (bool causal : {false, true})
    for (std::int64_t width : {128, 131, 300})
      for (std::int64_t tokens : {5, 70, 200}) check_against_quadratic<T>(shape(1, tokens, 3 * 2 * width), 2, causal);
}

TEST_CASE_TEMPLATE("flash_attention: logsumexp of the scaled scores", real, float, double) {
  shape const of(1, 70, 3 * 16);
  auto const qkv = array<real>::random(of, 1);
  flash<real> a(of, 1, true);
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
  flash<real> before(shape(1, 99, 24), 2, true), after(shape(1, 99, 24), 2, true);
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
    flash<T> a(of, 2, causal);
    quadratic<real_of<T>> const expected(signs, dy, 2, causal);
    CHECK(relative_error(in_double(a.forward(signs)), expected.y) < tolerance<T>);
    CHECK(relative_error(in_double(a.backward(dy, signs)), expected.dqkv) < tolerance<T>);
  }
}

TEST_CASE_TEMPLATE("flash_attention: enormous scores do not overflow", real, float, double) {
  auto const qkv = array<real>::random(shape(1, 70, 12), 1, 1000), dy = array<real>::random(shape(1, 70, 4), 2);
  flash<real> a(shape(1, 70, 12), 2, true);
  for (auto y : a.forward(qkv)) CHECK(std::isfinite(y));
  for (auto g : a.backward(dy, qkv)) CHECK(std::isfinite(g));
}

TEST_CASE_TEMPLATE("flash_attention: the same bits on every number of threads", T, float, double, ct::float16,
                   ct::bfloat16) {
  auto const check = [](shape s, int heads) {
    auto const qkv = array<T>::random(s, 1), dy = array<T>::random(s.with_features(s.features() / 3), 2);
    check_same_on_all_threads([&] { return flash<T>(s, heads, true).forward(qkv); });
    check_same_on_all_threads([&] {
      flash<T> a(s, heads, true);
      a.forward(qkv);
      return a.backward(dy, qkv);
    });
  };
  check(shape(3, 37, 3 * 34), 2);  // six heads to share out
  check(shape(1, 430, 3 * 40), 1); // one, which only its blocks can share out
}
