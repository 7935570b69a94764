// refused: two parameters have the same name (`expected` and `got` are their lines)
// diagnosis: parameter_named_twice, line, line, first, line
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr char const* second = "second";
#else
constexpr char const* second = "first";
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::linear("first", x, 64, {.bias = false}); // <- first
    x = ct::linear(second, x, 64, {.bias = false});  // <- line
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
