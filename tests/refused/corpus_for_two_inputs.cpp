// refused: batches(corpus): a corpus is one sequence of tokens, but the model takes other inputs
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "segments"}};
  constexpr ct::value operator()(ct::value tokens, ct::value segments) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}) +
                   ct::embedding("segment", segments, {.vocabulary = 2, .width = 64});
    return ct::linear("head", x, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;

void use(ct::trainer<task>& t, [[maybe_unused]] ct::data::corpus const& corpus,
         [[maybe_unused]] std::span<std::int32_t const> tokens) {
#ifdef CORRECT
  t.step(t.batch({tokens, tokens}, tokens));
  t.batches(ct::data::examples({tokens, tokens}, tokens));
#else
  t.batches(corpus); // <- here
#endif
}
