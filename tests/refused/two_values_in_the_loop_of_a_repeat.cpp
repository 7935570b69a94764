// refused: a loop over the iterations of ct::repeat carries two values with gradients
// diagnosis: refused, any, any, any, any
// shows: loop_carries_two_values
#include <constrain/constrain.hpp>

#include "penalty.hpp"

/// Adds the squares of the layers' results to the loss.
struct penalty {
  using slot = penalized;
  static constexpr slot value{.any = true};
  static constexpr auto after = ct::pass_name::built;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::ref const loss = p.result("loss");
    if (!loss) return p;
    ct::ref result; // of a layer
    for (auto const& n : p.nodes)
      for (auto const& output : n.outputs)
        if (p.values[output.value].is_loop_carried() && output.where == ct::at::next) result = output;
    int sum = -1;
    return ct::rewrite(p, [&](ct::builder& out, ct::node n, int) {
      auto const add_square = [&] {
        ct::ref const square = out.call<half_square>({result}).outputs[0];
        out.call<ct::op::add>({{sum, ct::at::current}, square}, {{sum, ct::at::next}});
      };
      bool const is_loss = n.kind == ct::node_kind::call && n.outputs[0] == loss;
#ifdef CORRECT
      bool const begins = is_loss;
#else
      bool const begins = n.kind == ct::node_kind::loop;
#endif
      if (begins) {
        int const axis = p.values[result.value].loop_carried_axis;
        sum = out.new_value({ct::dtype::f64, {}}, ct::role::activation, 0);
        out.program.values[sum].loop_carried_axis = axis;
        out.call<half_square>({{result.value, ct::at::initial}}, {{sum, ct::at::initial}});
        if (is_loss) out.open(axis, false), add_square(), out.close();
      }
      if (is_loss) n.inputs[0] = out.call<ct::op::add>({n.inputs[0], {sum, ct::at::final}}).outputs[0];
      out.program.add_node(n);
#ifndef CORRECT
      if (n.kind == ct::node_kind::call && n.outputs[0] == result) add_square();
#endif
    });
  }
};

template struct ct::entries<task, ct::policies<penalty>>; // <- here
