// refused: the model's parameters have more than `expected` different lists of parts (ct::in_parts, or `parts` of a
// diagnosis: too_many_part_lists, 0, 0, 16, 17
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    for (int layer = 0; layer < 17; ++layer) {
      char const name[] = {'m', char('a' + layer)};
#ifdef CORRECT
      x = ct::linear(std::string_view(name, 2), x, 64, {.parts = {1, 63}});
#else
      x = ct::linear(std::string_view(name, 2), x, 64, {.parts = {1 + layer, 63 - layer}});
#endif
    }
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
