#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <string_view>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::attention>;
constexpr auto gradient_rule = ct::info_of<ct::op::attention_gradient>;
constexpr ct::attributes packed(int heads, bool causal) { return ct::pack(ct::attention_options{heads, causal}); }
constexpr auto three_heads = packed(3, false), three_heads_causal = packed(3, true);
constexpr auto qkv_type = f32(shape(2, 5, 36)), y_type = f32(shape(2, 5, 12)), scores_type = f32(shape(2, 3, 5, 5));
constexpr auto outputs = rule.infer(types({qkv_type}), three_heads).outputs;
static_assert(outputs.size() == 2 && outputs[0] == y_type && outputs[1] == scores_type);
static_assert(refuses<ct::op::axis_is_not_there>(rule.infer(types({f32(shape(5, 36))}), three_heads), 3, 2));
static_assert(refuses<ct::op::attention::qkv_is_not_three_times_the_width>(rule.infer(types({f32(shape(2, 5, 35))}),
                                                                                      three_heads),
                                                                           3, 35));
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(rule.infer(types({qkv_type}), packed(5, false)),
                                                                        12, 5));
static_assert(refuses<ct::op::attention::heads_do_not_divide_the_width>(rule.infer(types({qkv_type}), packed(0, false)),
                                                                        12, 0));
constexpr auto lengths_type = i32(shape(2));
static_assert(rule.infer(types({qkv_type, lengths_type}), three_heads).outputs == outputs);
static_assert(refuses<ct::op::attention::lengths_do_not_fit>(rule.infer(types({qkv_type, i32(shape(2, 5))}),
                                                                        three_heads),
                                                             2, 10));
static_assert(refuses<ct::op::attention::lengths_do_not_fit>(rule.infer(types({qkv_type, f32(shape(2))}), three_heads),
                                                             2, 2));
constexpr auto gradients = gradient_rule.infer(types({y_type, qkv_type, scores_type}), three_heads).outputs;
static_assert(gradients.size() == 2 && gradients[0] == qkv_type && gradients[1] == scores_type);
static_assert(gradient_rule.workspace == 0b10);

// Forward two products of sequences * heads * tokens^2 * head width multiply-adds, backward four; half of that is all a
// causal attention needs.
constexpr double product = 2.0 * 2 * 3 * 5 * 5 * 4;
constexpr auto flops(ct::attributes const& a) {
  return rule.cost_of(types({qkv_type}), types({y_type, scores_type}), a).flops;
}
constexpr auto gradient_flops(ct::attributes const& a) {
  return gradient_rule.cost_of(types({y_type, qkv_type, scores_type}), types({qkv_type, scores_type}), a).flops;
}
static_assert(flops(three_heads) == 2 * product && flops(three_heads_causal) == product);
static_assert(gradient_flops(three_heads) == 4 * product && gradient_flops(three_heads_causal) == 2 * product);

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

template <class real> struct attended {
  ct::attributes options;
  array<real> y, probabilities, dqkv, dscores;

  attended(shape of, int heads, bool causal)
      : options(packed(heads, causal)), y(of.with_features(of.features() / 3)),
        probabilities(shape(of.extent[0], heads, of.extent[1], of.extent[1])), dqkv(of),
        dscores(probabilities.in().shape()) {}

  std::vector<real> const& forward(array<real> const& qkv) {
    call_kernel<ct::op::attention>(ct::call{options, no_parameters}, qkv.in(), y.out(), probabilities.out());
    return y.values();
  }
  std::vector<real> const& backward(array<real> const& dy, array<real> const& qkv) {
    call_kernel<ct::op::attention_gradient>(ct::call{options, no_parameters}, dy.in(), qkv.in(), probabilities.in(),
                                            dqkv.out(), dscores.out());
    return dqkv.values();
  }
};

} // namespace

TEST_CASE("attention: gradients, causal and not") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
  check_gradients<ct::task<model{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
}
TEST_CASE("attention: gradients of queries, keys and values that are used twice") {
  check_gradients<ct::task<shared_model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::accumulate<2>>();
}
TEST_CASE("attention: gradients of one sequence of one token") {
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 1}>,
                  ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("attention: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  for (bool causal : {false, true}) {
    std::string const name = causal ? "attention_causal" : "attention";
    CAPTURE(name);
    array<real> const qkv(shape(2, 5, 36), f.reals(name + ".qkv")), dy(shape(2, 5, 12), f.reals(name + ".dy"));
    attended<real> a(shape(2, 5, 36), 3, causal);
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
  attended<real> before(shape(1, 9, 24), 2, true), after(shape(1, 9, 24), 2, true);
  before.forward(qkv);
  for (std::size_t i = 5 * 24; i < 9 * 24; ++i) qkv[i] = 1000; // tokens 5 to 8
  after.forward(qkv);
  for (std::size_t i = 0; i < 5 * 8; ++i) CHECK(after.y[i] == before.y[i]);
}

TEST_CASE_TEMPLATE("attention: large scores do not overflow", real, float, double) {
  auto const qkv = array<real>::random(shape(1, 6, 12), 1, 1000), dy = array<real>::random(shape(1, 6, 4), 2);
  attended<real> a(shape(1, 6, 12), 2, true);
  for (auto y : a.forward(qkv)) CHECK(std::isfinite(y));
  for (auto g : a.backward(dy, qkv)) CHECK(std::isfinite(g));
}

TEST_CASE_TEMPLATE("attention: the same bits on every number of threads", real, float, double) {
  if (std::is_same_v<real, float> && ct::gemm_provider() != std::string_view("built-in")) return;
  auto const check = [](shape s, int heads) {
    auto const qkv = array<real>::random(s, 1), dy = array<real>::random(s.with_features(s.features() / 3), 2);
    check_same_on_all_threads([&] { return attended<real>(s, heads, true).forward(qkv); });
    check_same_on_all_threads([&] {
      attended<real> a(s, heads, true);
      a.forward(qkv);
      return a.backward(dy, qkv);
    });
  };
  check(shape(3, 37, 3 * 34), 2);  // six heads to share out
  check(shape(1, 130, 3 * 40), 1); // one, which only the products can share out
}

TEST_CASE_TEMPLATE("attention: with lengths, each sequence as if it ended there", real, float, double) {
  shape const s(3, 5, 12);
  auto const qkv = array<real>::random(s, 1), dy = array<real>::random(shape(3, 5, 4), 2);
  array<std::int32_t> const lengths(shape(3), {5, 2, 0});
  for (bool causal : {false, true}) {
    CAPTURE(causal);
    attended<real> a(s, 2, causal), full(s, 2, causal);
    call_kernel<ct::op::attention>(ct::call{a.options, no_parameters}, qkv.in(), lengths.in(), a.y.out(),
                                   a.probabilities.out());
    a.backward(dy, qkv);
    full.forward(qkv), full.backward(dy, qkv);
    for (std::size_t i = 0; i < 5 * 4; ++i) CHECK(a.y[i] == full.y[i]); // not masked
    for (std::size_t i = 0; i < 5 * 12; ++i) CHECK(a.dqkv[i] == full.dqkv[i]);
    // Of two tokens: queries at or beyond the length attend to the same keys.
    attended<real> two(shape(1, 2, 12), 2, causal);
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
