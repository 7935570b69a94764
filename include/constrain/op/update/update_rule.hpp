#pragma once

#include "constrain/op/assign/assign.hpp"
#include "constrain/program/value.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The interface of an optimizer's update rule: the parameter to update, its gradient, its states, and functions that
/// append nodes. A rule is called once for each trained parameter. For a parameter inside a repeat, the nodes
/// that the rule appends are in a loop over the iterations of the repeat, so that they work on one tensor of the model.
///
/// A rule computes new values with ops, as a model does, and stores them with `assign`, which changes nothing if the
/// gradient norm is not finite. No other node may write a parameter or a state, except calls of `guarded` ops, which
/// make the same check.
class update_rule {
public:
  /// The rule gives two states of the parameter the same name.
  template <diagnosis d> struct state_named_twice {
    static_assert(d.ok(),
                  "optimizer: its rule gives two states of a parameter the same name; give each state a name of "
                  "its own, for example by not averaging twice");
  };

  /// For the pass `update`, which makes one `update_rule` per parameter. `scale()` and `hyper()` return `scale` and
  /// `hyper`.
  constexpr update_rule(builder& out, int gradient, ref scale, ref hyper)
      : out_(out), gradient_(gradient), parameter_(out.program.values[gradient].belongs_to), scale_(scale),
        hyper_(hyper) {}

  /// Shape of the parameter: of one iteration's tensor inside a repeat, and of the full tensor if it is sharded.
  constexpr constrain::shape shape() const { return info().shape; }
  /// Type of the master weights.
  constexpr dtype type() const { return info().type; }
  /// The parameter's role, such as role::weight.
  constexpr constrain::role role() const { return info().role; }
  /// Whether weight decay applies to the parameter. A rule that calls this function must apply the decay: `explain`
  /// then lists the parameter as decaying.
  constexpr bool decays() const { return out_.program.values[parameter_].decays = constrain::decays(role()); }

  /// The parameter.
  constexpr value parameter() const { return {out_, {parameter_, at::current}}; }
  /// The parameter's gradient, the mean over the batch's labels, before clipping; in fp16, times the loss scale.
  constexpr value gradient() const { return {out_, {gradient_, at::current}}; }
  /// [norm of all gradients, scale], fp64 [2]: rules multiply the gradient by the scale, which clips the gradient.
  /// The scale is 0 if the norm is not finite.
  constexpr value scale() const { return {out_, scale_}; }
  /// The hyperparameters of this step: bytes that hold an `op::step_hyperparameters` of the optimizer.
  constexpr value hyper() const { return {out_, hyper_}; }

  /// A state of the parameter: a tensor that keeps its value from step to step and is saved. `name` must be unique
  /// within the parameter. `initial`: the value of all elements before the first step. `block`: elements of the
  /// parameter that one element of the state describes. A shard of a sharded parameter has whole blocks.
  constexpr value state(std::string_view name, constrain::shape s, dtype type, double initial = 0, int block = 1) {
    auto& program = out_.program;
    for (auto const& other : program.values)
      if (other.role == role::state && other.belongs_to == parameter_ && program.text(other.name) == name)
        program.fail(diagnosis_with<state_named_twice>(info().line));
    value_info state;
    state.block = block;
    state.type = type;
    state.role = role::state;
    state.shape = s;
    state.axes = info().axes;
    state.belongs_to = parameter_;
    state.name = name_of_state(name);
    state.initial.constant = initial;
    state.line = info().line;
    return {out_, {out_.add_checked(state), at::current}};
  }
  /// The same, with the type of the master weights.
  constexpr value state(std::string_view name, constrain::shape s) { return state(name, s, type()); }
  /// The same, with the parameter's shape and the type of the master weights.
  constexpr value state(std::string_view name) { return state(name, shape()); }

  /// Stores `source` in the parameter or in a state, converted to its type, unless the gradient norm is not finite.
  /// Both have the same shape.
  constexpr void assign(value target, value source) {
    out_.call<op::assign>({source.where(), scale_}, {target.where()}, {.to = target.type()}, info().line);
  }

  /// The average of the parameter: a state "average" in the parameter's shape and type, which begins as a copy of the
  /// parameter. The entries without gradients read it instead of the parameter.
  constexpr value average() {
    auto const average = state("average");
    out_.program.values[average.where().value].is_average = true;
    return average;
  }

  /// Appends a call of a guarded op that updates parameters or states in place.
  template <class op>
  constexpr void update_in_place(std::initializer_list<value> inputs, std::initializer_list<value> outputs,
                                 options_of<op> const& options = {}) {
    static_assert(info_of<op>.guarded, "update_rule: an op that writes a parameter or a state must be `guarded`");
    node n;
    n.attributes = pack(options);
    n.line = info().line;
    for (auto const& input : inputs) n.inputs.push_back(input.where());
    for (auto const& output : outputs) n.outputs.push_back(output.where());
    out_.append(info_of<op>, n);
  }

  /// For the library's optimizers that update element by element: the builder of the program.
  constexpr builder& owner() const { return out_; }

private:
  constexpr value_info const& info() const { return out_.program.values[parameter_]; }

  /// The name in the program's pool, which holds it once for all parameters.
  constexpr name_ref name_of_state(std::string_view name) {
    auto& program = out_.program;
    for (int v = program.values.size() - 1; v >= 0; --v)
      if (program.values[v].role == role::state && program.text(program.values[v].name) == name)
        return program.values[v].name;
    auto const added = program.names.add("", name);
    if (added.length == 0) program.fail({why::program_too_large, 0, 0, name_pool::capacity, name_pool::capacity + 1});
    return added;
  }

  builder& out_;
  int gradient_, parameter_;
  ref scale_, hyper_;
};

/// Whether an optimizer has a rule that emits nodes for each parameter, instead of an update of each element.
template <class optimizer> concept has_update_rule = requires(update_rule& u) { optimizer::update(u); };

} // namespace constrain
