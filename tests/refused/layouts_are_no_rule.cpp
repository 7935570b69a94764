// refused: an op's `layouts` is invalid; write patterns (*, ..., #, - or letters) for the inputs and, after ->
#include <constrain/program/is_op.hpp>
namespace ct = constrain;

struct negate {
  static constexpr char const* name = "negate";
#ifdef CORRECT
  static constexpr char const* layouts = "* -> *";
#else
  static constexpr char const* layouts = "*"; // no outputs
#endif
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

constexpr auto info = ct::info_of<negate>; // <- here
