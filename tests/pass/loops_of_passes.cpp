#include "check_gradients.hpp"
#include "pass/programs.hpp"

// Policies whose passes add loops over the axis of a repeat to the forward pass.

using namespace constrain;
using namespace constrain::test;

namespace own {

struct half_square_gradient {
  static constexpr char const* name = "half_square_gradient";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};
/// The sum of x * x / 2.
struct half_square {
  static constexpr char const* name = "half_square";
  static constexpr unsigned accumulating = 0b1;
  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }
  static constexpr void gradient(backward& b) { b.emit<half_square_gradient>({b.gradient(), b.input(0)}, {0}); }
};

/// What a pass adds to the loss, from loops over the layers of the repeat: the squares of all parameters, of what the
/// layers compute, of the layers' inputs, or of the layers' results.
enum class squared { nothing, parameters, activations, arguments, results };

template <squared what> struct penalty;
struct penalized {
  squared what = squared::nothing;
  friend constexpr bool operator==(penalized const&, penalized const&) = default;
  template <class...> using otherwise = penalty<squared::nothing>;
  using rules = rule_list<>;
};

constexpr ref accumulator(program& p) {
  value_info info;
  info.type = dtype::f64, info.accumulates = true;
  return {p.add_value(info), at::current};
}

/// The value that node n writes in the repeat, if `what` is about it.
constexpr ref in_the_repeat(program const& p, node const& n, squared what) {
  if (n.kind != node_kind::call || n.outputs.empty()) return {};
  auto const& info = p.values[n.outputs[0].value];
  if (info.is_loop_carried() && n.outputs[0].where == at::next) {
    if (what == squared::arguments) return {n.outputs[0].value, at::current};
    if (what == squared::results) return n.outputs[0];
  }
  return what == squared::activations && !info.axes.empty() && !info.is_loop_carried() ? n.outputs[0] : ref();
}

template <squared what> struct penalty {
  using slot = penalized;
  static constexpr slot value{what};
  static constexpr auto after = pass_name::built;
  static constexpr program pass(program const& p, slot const&) {
    ref const loss = p.result("loss");
    if (!loss || what == squared::nothing) return p;
    return rewrite(p, [&](builder& out, node n, int) {
      if (n.kind == node_kind::call && n.outputs[0] == loss) {
        auto const total = accumulator(out.program);
        auto const add_square = [&](ref r, int axis) {
          if (axis >= 0) out.open(axis, false);
          out.call<half_square>({r}, {total});
          if (axis >= 0) out.close();
        };
        for (int v = 0; what == squared::parameters && v < p.values.size(); ++v)
          if (auto const& info = p.values[v]; is_parameter(info.role))
            add_square({v, at::current}, info.axes.empty() ? -1 : info.axes[0]);
        for (auto const& other : p.nodes)
          if (ref const r = in_the_repeat(p, other, what)) add_square(r, 0);
        n.inputs[0] = out.call<op::add>({n.inputs[0], total}).outputs[0];
      }
      out.program.add_node(n);
    });
  }
};

struct no_running_sum;
struct runs {
  bool any = false;
  friend constexpr bool operator==(runs const&, runs const&) = default;
  template <class...> using otherwise = no_running_sum;
  using rules = rule_list<>;
};
struct no_running_sum {
  using slot = runs;
  static constexpr slot value{};
};
/// Adds the squares of the layers' results to the loss, with a sum that a loop carries: a loop of its own, or the loop
/// of the repeat.
template <bool own_loop> struct running_sum {
  using slot = runs;
  static constexpr slot value{true};
  static constexpr auto after = pass_name::built;
  static constexpr program pass(program const& p, slot const&) {
    ref const loss = p.result("loss");
    if (!loss) return p;
    ref result;
    for (auto const& n : p.nodes)
      if (ref const r = in_the_repeat(p, n, squared::results)) result = r;
    int sum = -1;
    return rewrite(p, [&](builder& out, node n, int) {
      auto const add_square = [&] {
        ref const square = out.call<half_square>({result}).outputs[0];
        out.call<op::add>({{sum, at::current}, square}, {{sum, at::next}});
      };
      bool const is_loss = n.kind == node_kind::call && n.outputs[0] == loss;
      if (own_loop ? is_loss : n.kind == node_kind::loop) {
        sum = out.new_value({dtype::f64, {}}, role::activation, 0);
        out.program.values[sum].loop_carried_axis = 0;
        out.call<half_square>({{result.value, at::initial}}, {{sum, at::initial}});
      }
      if (own_loop && is_loss) {
        out.open(0, false);
        add_square();
        out.close();
      }
      if (is_loss) n.inputs[0] = out.call<op::add>({n.inputs[0], {sum, at::final}}).outputs[0];
      out.program.add_node(n);
      if (!own_loop && n.kind == node_kind::call && n.outputs[0] == result) add_square();
    });
  }
};

/// Layers with a frozen parameter. `forgets`: the logits do not depend on the layers.
template <bool forgets> struct layers {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const y = repeat("block", 3, x, [](value z) {
      auto const up = linear("up", z, 4, {.bias = false});
      return z + silu(linear("still", up, 4, {.bias = false, .role = role::frozen}));
    });
    return linear("head", forgets ? x : y, 5, {.bias = false});
  }
};
template <bool forgets = false>
using layers_task = task<layers<forgets>{}, causal_lm, micro_batch{.sequences = 1, .tokens = 3}>;

} // namespace own

using namespace own;

template <> struct constrain::kernel<half_square, cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<double> y) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.count; ++i) sum += 0.5 * static_cast<double>(x[i]) * static_cast<double>(x[i]);
    y[0] = (c.add_to(0) ? y[0] : 0) + sum;
  }
};
template <> struct constrain::kernel<half_square_gradient, cpu> {
  template <class real> static void run(call const&, tensor<double const> g, tensor<real const> x, tensor<real> dx) {
    for (std::int64_t i = 0; i < x.count; ++i) dx[i] = static_cast<real>(g[0]) * x[i];
  }
};

TEST_CASE("differentiate: a pass reads the parameters of each layer") {
  check_gradients<layers_task<>, penalty<squared::parameters>>();
}

TEST_CASE("accumulate: a sum that the loss reads starts anew in each micro-batch") {
  check_gradients<layers_task<>, penalty<squared::parameters>, accumulate<2>>();
  check_gradients<layers_task<>, penalty<squared::results>, accumulate<2>>();
}

TEST_CASE("a loop of a pass carries a value: its gradients are right, and checkpointing leaves the repeat as it is") {
  check_gradients<layers_task<>, running_sum<true>>();
  check_gradients<layers_task<>, running_sum<true>, checkpoint::every<2>>();
}

// A loop carries the gradient of one value.
constexpr auto with_two_values =
    differentiate(dead_code_elimination(running_sum<false>::pass(built<layers_task<>>(), running_sum<false>::value)));
static_assert(with_two_values.failure.refusal == refusal_with<refusals::loop_carries_two_values>());

TEST_CASE("differentiate: a pass reads what each layer computes") {
  check_gradients<layers_task<>, penalty<squared::activations>>();
  check_gradients<layers_task<>, penalty<squared::arguments>>();
  check_gradients<layers_task<>, penalty<squared::results>>();
}

TEST_CASE("recompute: a pass reads what each layer computes") {
  check_gradients<layers_task<>, penalty<squared::activations>, checkpoint::every<1>>();
  check_gradients<layers_task<>, penalty<squared::activations>, checkpoint::every<2>>();
  check_gradients<layers_task<>, penalty<squared::arguments>, checkpoint::every<2>>();
  check_gradients<layers_task<>, penalty<squared::results>, checkpoint::every<2>>();
}

TEST_CASE("differentiate: only a pass reads what the layers compute") {
  check_gradients<layers_task<true>, penalty<squared::activations>>();
  check_gradients<layers_task<true>, penalty<squared::results>>();
}
