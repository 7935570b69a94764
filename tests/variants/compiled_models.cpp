#include <constrain/constrain.hpp>

// Trainers whose kernels are all in the companion library (check_compiled_kernels).

namespace ct = constrain;

namespace {

constexpr ct::micro_batch two{.sequences = 2, .tokens = 16};
constexpr ct::gpt2 gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 16};
constexpr ct::bert bert{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 16};
constexpr ct::llama llama{
    .layers = 2, .heads = 2, .key_value_heads = 1, .width = 64, .hidden = 128, .vocabulary = 256, .context = 16};

template <class task, class... policies> void use() {
  using trainer = ct::trainer<task, policies...>;
  trainer t({}, {.clip_norm = 1});
  std::vector<std::int32_t> const tokens(trainer::batch_tokens);
  t.step(t.batch(tokens, tokens));
  t.evaluate(tokens, tokens);
  t.predict(tokens);
}

} // namespace

void use_models() {
  use<ct::task<gpt2, ct::causal_lm, two>>();
  use<ct::task<gpt2, ct::causal_lm, two>, ct::precision::bf16, ct::attention::flash, ct::checkpoint::every<1>>();
  use<ct::task<gpt2, ct::causal_lm, two>, ct::precision::fp16, ct::optimizer::momentum>();
  use<ct::task<gpt2, ct::causal_lm, two>, ct::precision::fp64, ct::attention::reference, ct::optimizer::lion>();
  use<ct::task<bert, ct::masked_lm, two>, ct::precision::bf16, ct::attention::reference, ct::accumulate<2>>();
  use<ct::task<bert.with_classes(2), ct::classification, two>, ct::attention::flash, ct::optimizer::sgd>();
  use<ct::task<llama, ct::causal_lm, two>, ct::precision::bf16, ct::attention::flash>();
  use<ct::task<llama, ct::causal_lm, two>, ct::precision::tf32, ct::fusion::all>();
}
