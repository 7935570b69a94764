// refused: the model's program is too large; it exceeds a limit, `expected`, for example of its nodes, values, names,
// diagnosis: program_too_large, any, any, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    x = ct::repeat("block", 600, x, [](ct::value x) { return ct::linear("mlp", x, 64); });
#else
    for (int layer = 0; layer < 600; ++layer) {
      char const name[] = {'m', char('0' + layer / 100), char('0' + layer / 10 % 10), char('0' + layer % 10)};
      x = ct::linear(std::string_view(name, 4), x, 64);
    }
#endif
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
