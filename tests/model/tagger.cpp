#include "check_gradients.hpp"

namespace ct = constrain;

namespace {

struct gated_mlp {
  int hidden;
  constexpr ct::value operator()(ct::value x) const {
    auto gate = ct::silu(ct::linear("gate_proj", x, hidden));
    auto up = ct::linear("up_proj", x, hidden);
    return ct::linear("down_proj", gate * up, x.features());
  }
};

struct tagger {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 13, .width = 6});
    x = ct::repeat("block", 3, x, [](ct::value x) {
      return x + ct::dropout(ct::apply("mlp", gated_mlp{8}, ct::layer_norm("norm", x)));
    });
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<tagger{}, ct::classification, ct::micro_batch{.sequences = 6, .tokens = 5}>;

} // namespace

TEST_CASE("tagger: gradients") {
  ct::test::check_gradients<task>();
  ct::test::check_gradients<task, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE("tagger: learns to tell which token leads") {
  using trainer = ct::trainer<task>;
  trainer t{{.learning_rate = 1e-2f}, {.seed = 2, .dropout = 0.1}};
  std::vector<std::int32_t> inputs(30), labels(6);
  for (int step = 0; step < 60; ++step) {
    for (std::size_t i = 0; i < 6; ++i) {
      labels[i] = static_cast<std::int32_t>((i + static_cast<std::size_t>(step)) % 4);
      for (std::size_t k = 0; k < 5; ++k)
        inputs[i * 5 + k] = k < 3 ? labels[i] : static_cast<std::int32_t>(4 + (k + i) % 9);
    }
    t.step(t.batch(inputs, labels));
  }
  auto const e = t.evaluate(inputs, labels);
  CHECK(e.accuracy == 1.0);
  CHECK(e.loss < 0.2);
  CHECK(e.tokens == 6);
  auto const y = t.predict(inputs);
  CHECK(y.shape == ct::shape(6, 4));
}
