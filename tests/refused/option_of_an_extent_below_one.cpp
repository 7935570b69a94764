// refused: an extent is `got`, but must be at least `expected`
// diagnosis: extent_below_one, line, 0, 1, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// x with its elements in another shape, a matrix.
struct reshape {
  struct options {
    ct::shape to;
  };
  static constexpr char const* name = "reshape";
  static constexpr ct::inferred infer(ct::operand_types const& in, options const& o) {
    return ct::inferred::one(in[0].type, ct::shape(in[0].shape.elements() / o.to.extent[1], o.to.extent[1]));
  }
  static constexpr void gradient(ct::backward& b) {
    auto const s = b.input(0).shape();
    b.emit<reshape>({b.gradient()}, {0}, {.to = ct::shape(s.extent[0], s.extent[1])});
  }
};

struct model {
  int width;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::mean(ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), ct::axis::tokens);
    return ct::linear("head", ct::emit<reshape>({x}, {.to = ct::shape(8, width)}), 4); // <- line
  }
};
#ifdef CORRECT
using task = ct::task<model{64}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
#else
using task = ct::task<model{0}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
#endif
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
