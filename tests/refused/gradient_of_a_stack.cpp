// refused: an operation, `op`, between a trained parameter and the loss uses all tensors of a stack in one call
// diagnosis: refused, any, any, any, any
// shows: gradient_of_a_stack
// layouts: half_square, replicated, replicated
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct half_square_gradient {
  static constexpr char const* name = "half_square_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};
/// The sum of x * x / 2.
struct half_square {
  static constexpr char const* name = "half_square";
  static constexpr unsigned accumulating = 0b1;
  static constexpr ct::inferred infer(ct::operand_types const&) { return ct::inferred::one(ct::dtype::f64, {}); }
  static constexpr void gradient(ct::backward& b) { b.emit<half_square_gradient>({b.gradient(), b.input(0)}, {0}); }
};

struct no_penalty;
struct penalized {
  bool weights = false;
  friend constexpr bool operator==(penalized const&, penalized const&) = default;
  template <class...> using otherwise = no_penalty;
  using rules = ct::rule_list<>;
};
struct no_penalty {
  using slot = penalized;
  static constexpr slot value{};
};
/// Adds the squares of the stacked weights to the loss.
struct penalty {
  using slot = penalized;
  static constexpr slot value{.weights = true};
  static constexpr auto after = ct::pass_name::built;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::ref const loss = p.result("loss");
    if (!loss) return p;
    return ct::rewrite(p, [&](ct::builder& out, ct::node n, int) {
      if (n.kind == ct::node_kind::call && n.outputs[0] == loss) {
        ct::value_info info;
        info.type = ct::dtype::f64, info.accumulates = true;
        ct::ref const total{out.program.add_value(info), ct::at::current};
        for (int v = 0; v < p.values.size(); ++v) {
          if (!ct::is_trainable(p.values[v].role) || p.values[v].axes.empty()) continue;
#ifdef CORRECT
          int const opened = out.open_all(p.values[v].axes);
#else
          int const opened = 0;
#endif
          out.call<half_square>({{v, ct::at::current}}, {total});
          out.close(opened);
        }
        n.inputs[0] = out.call<ct::op::add>({n.inputs[0], total}).outputs[0];
      }
      out.program.add_node(n);
    });
  }
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::repeat("block", 3, x, [](ct::value z) { return z + ct::gelu(ct::linear("up", z, 64)); });
    return ct::linear("head", y, 97);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
template struct ct::entries<task, ct::policies<penalty>>; // <- here
