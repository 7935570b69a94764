// refused: so use such values in both the body's argument and its result, or in neither
// shows: repeat_changes_the_type
// diagnosis: refused, line, any, 2, 4
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 3}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 2); }
};
struct objective {
  static constexpr ct::port_spec labels[] = {{.name = "targets", .type = ct::port_type::real, .each = ct::per::logit},
                                             {.name = "factors", .type = ct::port_type::real, .each = ct::per::logit}};
  constexpr ct::value operator()(ct::value prediction, ct::value targets, ct::value factors) const {
#ifdef CORRECT
    prediction = prediction * factors;
#endif
    auto const x = ct::repeat("scaled", 3, prediction, [&](ct::value x) { return x * factors; }); // <- line
    return ct::squared_error(x, targets);
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 4}>;
static_assert(ct::trainer<task, ct::precision::bf16>::memory.peak <= ct::mebibytes(1)); // <- here
