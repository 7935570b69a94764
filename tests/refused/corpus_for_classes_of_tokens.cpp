// refused: batches(corpus): a corpus labels every token with the next one, but the labels of the task's objective
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct tagger {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 256, .width = 64}), 9);
  }
};

using task = ct::task<tagger{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;

ct::fit_result use(ct::trainer<task>& t, [[maybe_unused]] ct::data::corpus const& corpus,
                   [[maybe_unused]] std::span<std::int32_t const> tokens,
                   [[maybe_unused]] std::span<std::int32_t const> tags) {
#ifdef CORRECT
  return ct::fit(t, ct::data::examples(tokens, tags), {.steps = 500});
#else
  return ct::fit(t, corpus, {.steps = 500}); // <- here
#endif
}
