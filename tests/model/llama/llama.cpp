#include "check_gradients.hpp"

namespace ct = constrain;
using ct::test::check_gradients;

namespace {

constexpr ct::llama small{.layers = 2,
                          .heads = 4,
                          .key_value_heads = 2,
                          .width = 8,
                          .hidden = 6,
                          .vocabulary = 11,
                          .context = 6,
                          .rotary = {.theta = 20}};
constexpr ct::llama like_qwen3 = [] {
  auto m = small;
  m.head_width = 6, m.tied = false, m.head_norms = true;
  return m;
}();
constexpr ct::llama with_biases = [] {
  auto m = small;
  m.biases = true;
  return m;
}();
template <ct::llama m> using task_of = ct::task<m, ct::causal_lm, ct::micro_batch{.sequences = 2}>;

static_assert(small.features_of_head() == 2 && like_qwen3.features_of_head() == 6);

} // namespace

TEST_CASE("llama: gradients") {
  check_gradients<task_of<small>>();
  check_gradients<task_of<with_biases>>();
}
TEST_CASE("llama: gradients with accumulation and checkpointing") {
  check_gradients<task_of<like_qwen3>, ct::accumulate<2>, ct::checkpoint::every<1>>();
}
