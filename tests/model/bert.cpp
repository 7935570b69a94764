#include "check_gradients.hpp"
#include "fixtures.hpp"

#include <cmath>

// BERT (Devlin et al. 2019) from the library's layers: three inputs, post-norm, a pooler. It equals Transformers' on a
// padded batch (tests/fixtures/README.md).

namespace ct = constrain;
using ct::test::fixture;

namespace {

struct bert {
  int layers, heads, width, hidden, vocabulary, context, types, classes;
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "segments"}, {.name = "lengths", .each = ct::per::sequence}};

  constexpr ct::value operator()(ct::value tokens, ct::value segments, ct::value lengths) const {
    ct::layer_norm_options const norm{.epsilon = 1e-12};
    auto x = ct::embedding("token", tokens, {.vocabulary = vocabulary, .width = width});
    x = x + ct::embedding("type", segments, {.vocabulary = types, .width = width});
    x = ct::layer_norm("norm", ct::position_embedding("position", x, {.context = context}), norm);
    x = ct::repeat("block", layers, ct::dropout(x), [&](ct::value h) {
      auto const qkv = ct::linear("qkv", h, 3 * width);
      auto const seen = ct::self_attention(qkv, lengths, {.heads = heads, .causal = false});
      h = ct::layer_norm("norm_1", h + ct::dropout(ct::linear("projection", seen, width)), norm);
      auto const up = ct::gelu(ct::linear("up", h, hidden));
      return ct::layer_norm("norm_2", h + ct::dropout(ct::linear("down", up, width)), norm);
    });
    auto const pooled = ct::tanh(ct::linear("pooler", ct::select_token(x, 0), width));
    return ct::linear("head", ct::dropout(pooled), classes);
  }
};

constexpr bert tiny{
    .layers = 2, .heads = 2, .width = 8, .hidden = 12, .vocabulary = 13, .context = 6, .types = 2, .classes = 3};
using task = ct::task<tiny, ct::classification, ct::micro_batch{.sequences = 4}>;

struct arrays {
  std::vector<std::int32_t> tokens, segments, lengths, labels;
  explicit arrays(fixture const& f)
      : tokens(f.integers("tokens")), segments(f.integers("segments")), lengths(f.integers("lengths")),
        labels(f.integers("labels")) {}
};

template <class trainer> void load(trainer& t, fixture const& f) {
  for (auto const& p : t.parameters()) p.copy_from(std::span<double const>(f.reals("weight." + std::string(p.name))));
}

} // namespace

TEST_CASE_TEMPLATE("bert equals Transformers' in double, padded: logits, loss and every gradient", trainer,
                   ct::trainer<task, ct::precision::fp64>,
                   ct::trainer<task, ct::precision::fp64, ct::checkpoint::every<1>, ct::fusion::none>) {
  fixture const f("bert.safetensors");
  arrays const a(f);
  trainer t{{}, {.checked = true}};
  load(t, f);
  auto const logits = t.predict({a.tokens, a.segments, a.lengths}).logits;
  CHECK(ct::test::relative_error(logits, f.reals("logits")) < 1e-10);
  auto const r = t.step(t.batch({a.tokens, a.segments, a.lengths}, a.labels));
  CHECK(std::abs(r.loss - f.reals("loss")[0]) < 1e-10);
  for (auto const& p : t.parameters()) {
    CAPTURE(std::string(p.name));
    std::vector<double> gradient(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span<double>(gradient));
    auto const expected = f.reals("gradient." + std::string(p.name));
    if (p.name != "block.qkv.bias") {
      CHECK(ct::test::relative_error(gradient, expected) < 1e-10);
      continue;
    }
    // The key bias has no gradient by mathematics, only rounding.
    for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(std::abs(gradient[i] - expected[i]) < 1e-10);
  }
}

TEST_CASE("bert: what is behind the length changes nothing") {
  fixture const f("bert.safetensors");
  arrays a(f);
  ct::trainer<task, ct::precision::fp32> t, u;
  load(t, f), load(u, f);
  auto const before = t.predict({a.tokens, a.segments, a.lengths}).logits;
  double const loss = t.step(t.batch({a.tokens, a.segments, a.lengths}, a.labels)).loss;
  for (std::size_t s = 0; s < 4; ++s)
    for (auto i = static_cast<std::size_t>(a.lengths[s]); i < 6; ++i) a.tokens[s * 6 + i] = 1;
  CHECK(u.predict({a.tokens, a.segments, a.lengths}).logits == before);
  CHECK(u.step(u.batch({a.tokens, a.segments, a.lengths}, a.labels)).loss == loss);
}

namespace {

constexpr bert longer{
    .layers = 2, .heads = 2, .width = 8, .hidden = 12, .vocabulary = 13, .context = 9, .types = 2, .classes = 3};

/// The logits and all gradients of sequences that are padded to so many tokens.
template <int tokens, class... policies> std::vector<double> padded_to(arrays const& a) {
  auto const pad = [](std::vector<std::int32_t> const& six) {
    std::vector<std::int32_t> all;
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t i = 0; i < tokens; ++i) all.push_back(i < 6 ? six[s * 6 + i] : 0);
    return all;
  };
  auto const padded = pad(a.tokens), segments = pad(a.segments);
  ct::trainer<ct::task<longer, ct::classification, ct::micro_batch{.sequences = 4, .tokens = tokens}>, policies...> t;
  auto const logits = t.predict({padded, segments, a.lengths}).logits;
  std::vector<double> all(logits.begin(), logits.end());
  t.step(t.batch({padded, segments, a.lengths}, a.labels));
  for (auto const& p : t.parameters()) {
    std::vector<double> gradient(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span(gradient));
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

} // namespace

TEST_CASE("bert: more padding changes results within rounding only") {
  fixture const f("bert.safetensors");
  arrays const a(f);
  using namespace ct::precision;
  using ct::test::relative_error;
  CHECK(relative_error(padded_to<9, fp64>(a), padded_to<6, fp64>(a)) < 1e-13);
  CHECK(relative_error(padded_to<9, fp32>(a), padded_to<6, fp32>(a)) < 1e-5);
  CHECK(relative_error(padded_to<9, fp32, ct::attention::flash>(a), padded_to<6, fp32>(a)) < 1e-5);
  CHECK(relative_error(padded_to<9, bf16>(a), padded_to<6, bf16>(a)) < 2e-2);
}

TEST_CASE("bert: gradients, sequences without any token among them") { ct::test::check_gradients<task>(); }

TEST_CASE_TEMPLATE("bert learns", precision, ct::precision::fp32, ct::precision::bf16) {
  fixture const f("bert.safetensors");
  arrays const a(f);
  ct::trainer<task, precision, ct::accumulate<1>> t{{.learning_rate = 1e-2f}};
  for (int i = 0; i < 60; ++i) t.step(t.batch({a.tokens, a.segments, a.lengths}, a.labels));
  auto const e = t.evaluate({a.tokens, a.segments, a.lengths}, a.labels);
  CHECK(e.accuracy == 1);
  CHECK(e.loss < 0.1);
}
