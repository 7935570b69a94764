// refused: batches(corpus): a corpus labels every token with the next one, but the task has other labels
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;

void use(ct::trainer<task>& t, [[maybe_unused]] ct::data::corpus const& corpus,
         [[maybe_unused]] std::span<std::int32_t const> tokens) {
#ifdef CORRECT
  t.step(t.batch(tokens, tokens));
  t.batches(ct::data::examples(tokens, tokens));
#else
  t.batches(corpus); // <- here
#endif
}
