#include "check_gradients.hpp"

namespace ct = constrain;

using small = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 8, .vocabulary = 11, .context = 6}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;

TEST_CASE("gpt2: gradients") { ct::test::check_gradients<small>(); }
TEST_CASE("gpt2: gradients with accumulation and checkpointing") {
  ct::test::check_gradients<small, ct::accumulate<2>, ct::checkpoint::every<1>>();
  ct::test::check_gradients<small, ct::accumulate<2>, ct::checkpoint::every<2>>();
}
