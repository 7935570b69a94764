#include "check_gradients.hpp"

namespace ct = constrain;
using ct::test::check_gradients;

namespace {

constexpr ct::bert small{.layers = 2, .heads = 2, .width = 8, .hidden = 6, .vocabulary = 11, .context = 5};
using masked_lm = ct::task<small, ct::masked_lm, ct::micro_batch{.sequences = 2}>;
using classifier = ct::task<small.with_classes(3), ct::classification, ct::micro_batch{.sequences = 3}>;

// The head of masked language modeling is tied: its matrix is the token embedding.
static_assert(ct::trainer<masked_lm>::parameter_count - ct::trainer<classifier>::parameter_count ==
              8 * 8 + 8 + 2 * 8 + 11 - (8 * 8 + 8 + 3 * 8 + 3));
static_assert(small.with_classes(3).classes == 3 && small.with_classes(3).layers == small.layers);

} // namespace

TEST_CASE("bert: gradients") {
  check_gradients<masked_lm>();
  check_gradients<classifier>();
}
TEST_CASE("bert: gradients with accumulation and checkpointing") {
  check_gradients<masked_lm, ct::accumulate<2>, ct::checkpoint::every<1>>();
  check_gradients<classifier, ct::accumulate<2>, ct::checkpoint::every<2>>();
}
