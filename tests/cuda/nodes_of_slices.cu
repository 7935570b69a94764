// Op by op: every node of a model that cuts its rows and puts them together again runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Exchanges the halves of the sequences, then those of the rows. `width` and `tokens` are even.
template <int width, int tokens> struct exchanged_halves {
  constexpr ct::value operator()(ct::value ids) const {
    auto const x = ct::embedding("token", ids, {.vocabulary = 31, .width = width});
    auto const y = exchanged(x, 1, tokens / 2);
    return ct::linear("head", y + exchanged(y, 2, width / 2), 31);
  }
  static constexpr ct::value exchanged(ct::value x, int dimension, int half) {
    return ct::concatenate({ct::slice(x, dimension, half, half), ct::slice(x, dimension, 0, half)}, dimension);
  }
};
template <int width, int tokens>
using task =
    ct::task<exchanged_halves<width, tokens>{}, ct::causal_lm, ct::micro_batch{.sequences = 3, .tokens = tokens}>;

} // namespace

TEST_CASE("every node with slices, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<task<6, 10>, ct::optimizer::sgd>(seen); // halves that no pack can hold
  check_nodes<task<48, 10>, ct::precision::bf16, ct::optimizer::sgd>(seen);
  for (auto const* name : {"slice", "pad", "concatenate"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
