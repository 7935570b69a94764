// refused: ct::metrics: the name of a metric is not UTF-8
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct hits {
#ifdef CORRECT
  static constexpr char const* name = "touch\xc3\xa9s";
#else
  static constexpr char const* name = "touch\xe9s";
#endif
  static double of(ct::class_counts const& c) { return c.correct(0); }
};
template struct ct::metrics<ct::macro_f1, hits>; // <- here
