// refused: optimizer: a wrapper is given twice or in the wrong order; write each at most once, in the order
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// A wrapper outside of the library, which changes nothing.
template <class O> struct unchanged {
  using base = O;
  struct hyper {
    typename O::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) { ct::op::update_by<O>(u); }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::averaged, ct::optimizer::muon;
#ifdef CORRECT
ct::trainer<task, averaged<unchanged<muon<adamw>>>> t;
#else
ct::trainer<task, muon<unchanged<averaged<adamw>>>> t; // <- here
#endif
