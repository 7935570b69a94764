#include "check_gradients.hpp"

namespace ct = constrain;

namespace {

struct model {
  bool causal;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
    return ct::linear("head", ct::attention(x, {.heads = 2, .causal = causal}), 5);
  }
};

} // namespace

TEST_CASE("attention: gradients, causal and not") {
  ct::test::check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
  ct::test::check_gradients<ct::task<model{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
}
