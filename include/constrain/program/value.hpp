#pragma once

#include "constrain/program/builder.hpp"
#include "constrain/program/refusal.hpp"

#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A tensor in a model under construction: a symbolic reference into the model's program, without data. Operations are
/// free functions on values.
class value {
public:
  /// An empty value. Only `operator bool` and `where` may be called on it.
  constexpr value() = default;
  /// A reference into the program of `owner`.
  constexpr value(constrain::builder& owner, ref where) : owner_(&owner), where_(where) {}

  /// Extents of one instance, such as [sequences, tokens, features].
  constexpr constrain::shape shape() const { return info().shape; }
  /// Type of an element.
  constexpr dtype type() const { return info().type; }
  /// The innermost extent, which must fit into an int; 1 for a scalar.
  constexpr int features() const { return static_cast<int>(shape().features()); }
  /// Whether the value is not empty.
  constexpr explicit operator bool() const { return static_cast<bool>(where_); }

  /// For authors of operations: the builder of the program that the value belongs to.
  constexpr constrain::builder& owner() const { return *owner_; }
  /// For authors of operations: the value's index and instance in the program.
  constexpr ref where() const { return where_; }
  /// For authors of operations: the value's properties.
  constexpr value_info const& info() const { return owner_->program.values[where_.value]; }

private:
  constrain::builder* owner_ = nullptr;
  ref where_;
};

/// An operand of an overloaded operator, with the line of the expression, for error messages. The constructor's default
/// argument is evaluated where the operator is used, so it is that line.
struct value_at_line {
  constrain::value value; // the operand
  int line;               // source line of the expression
  /// Implicit, so that a `value` can be an operand.
  constexpr value_at_line(constrain::value v, int source_line = __builtin_LINE()) : value(v), line(source_line) {}
};

namespace detail {

/// Appends a call to an op and returns the node with its outputs. There must be at least one input. Refused: inputs of
/// two programs, too many inputs, inputs computed in a loop that does not enclose the call, and everything that
/// `builder::append` refuses. Appends nothing to a program that is already refused.
constexpr node emit_node(op_info const& info, std::initializer_list<value> inputs, attributes const& options,
                         int line) {
  auto& owner = inputs.begin()->owner();
  node n;
  n.attributes = options;
  n.line = line;
  // Only the first error is reported; appending nothing after it saves compile time.
  if (!owner.program.failure.ok()) return n;
  for (auto const& input : inputs) {
    if (&input.owner() != &owner) owner.program.fail({why::values_of_two_programs, line, owner.called_from, 0, 0});
    owner.add_input(n, input.where());
    if (owner.program.failure.ok()) owner.check_reach(input.where(), line);
  }
  return owner.append(info, n);
}

} // namespace detail

/// Appends a call to `op` with these options and returns the call's first output. In a refused program, returns the
/// first input if the call has no output. There must be at least one input. Operations such as ct::gelu are built from
/// `emit`. `line` is the source line where the model calls the operation. Refused: inputs of two programs, more inputs
/// than a node can have, inputs computed in a loop that does not enclose the call, and inputs that the shape rule of
/// `op` refuses.
///
///     emit<op::attention>({q, k, v}, {.heads = 12}, line)
template <class op>
constexpr value emit(std::initializer_list<value> inputs, options_of<op> const& options = {},
                     int line = __builtin_LINE()) {
  auto const n = detail::emit_node(info_of<op>, inputs, pack(options), line);
  // A refused call may have no output; the first input then replaces it until the refusal is reported.
  return n.outputs.empty() ? *inputs.begin() : value{inputs.begin()->owner(), n.outputs[0]};
}

/// Appends a call to `op` and returns all outputs of the call, in the order of the op's shape rule. In a refused
/// program, may return none. There must be at least one input. Refused inputs and `line`: as in `emit`.
template <class op>
constexpr fixed_vector<value, node::maximum_outputs> emit_all(std::initializer_list<value> inputs,
                                                              options_of<op> const& options = {},
                                                              int line = __builtin_LINE()) {
  fixed_vector<value, node::maximum_outputs> outputs;
  for (auto const& output : detail::emit_node(info_of<op>, inputs, pack(options), line).outputs)
    outputs.push_back({inputs.begin()->owner(), output});
  return outputs;
}

namespace refusals {

/// The initial value of a parameter is NaN or out of range.
template <diagnosis d> struct initial_value_is_out_of_range {
  static_assert(d.ok(), "ct::parameter: the initial .stddev is not in [0, 1e30], or the initial .constant is not in "
                        "[-1e30, 1e30]; give numbers in these ranges, for example .stddev = 0.02");
};

/// A parameter outside of all scopes has no name.
template <diagnosis d> struct parameter_without_a_name {
  static_assert(d.ok(), "ct::parameter: the name is empty, and no layer's scope names the parameter; give it a name, "
                        "which saved runs and trainer::parameters use");
};

} // namespace refusals

/// Adds a parameter with the name "scope.name" (the scope's name if `name` is empty) and the shape `s` to the program
/// of `like`, which may be any value of the model, and returns the parameter. Its type is `builder::real`. `initial`:
/// its initial values; default: all are 0. Inside a repeat, the parameter has one instance per iteration. Refuses a
/// role that is not for parameters, an initial value out of range, a name that is taken or not UTF-8, an empty name
/// outside of all scopes, invalid extents, and more names or values than the program can hold. Returns `like` if the
/// program is already refused.
constexpr value parameter(value like, std::string_view name, shape s, role r, initial_value initial = {},
                          int line = __builtin_LINE()) {
  auto& owner = like.owner();
  auto& program = owner.program;
  if (!program.failure.ok()) return like;
  if (!is_parameter(r))
    program.fail({why::role_is_not_for_parameters, line, owner.called_from, 0, static_cast<int>(r)});
  if (!(initial.stddev >= 0 && initial.stddev <= 1e30 && initial.constant >= -1e30 && initial.constant <= 1e30))
    program.fail(diagnosis_with<refusals::initial_value_is_out_of_range>(line, owner.called_from));
  value_info info;
  info.type = owner.real;
  info.role = r;
  info.shape = s;
  info.axes = owner.enclosing;
  info.initial = initial;
  info.line = line;
  info.name = owner.add_name(name, line);
  if (info.name.length == 0) program.fail(diagnosis_with<refusals::parameter_without_a_name>(line, owner.called_from));
  for (auto const& other : program.values)
    if (other.name.hash == info.name.hash && is_parameter(other.role) &&
        program.text(other.name) == program.text(info.name))
      program.fail({why::parameter_named_twice, line, owner.called_from, other.line, line});
  return {owner, {owner.add_checked(info), at::current}};
}

/// The scope of a layer. While the object exists, names of new parameters begin with the outer scope and "name.", and
/// errors report `line` as the line of the layer's call, unless the line of an outer layer or repeat is already set.
/// Refuses a name that is not UTF-8, and more names than the program can hold.
class scope {
public:
  /// `line` is where the layer is called.
  constexpr scope(builder& owner, std::string_view name, int line)
      : owner_(owner), outer_scope_(owner.scope), outer_line_(owner.called_from) {
    owner.scope = owner.add_name(name, line);
    if (owner.called_from == 0) owner.called_from = line;
  }
  constexpr ~scope() {
    owner_.scope = outer_scope_;
    owner_.called_from = outer_line_;
  }
  scope(scope const&) = delete;
  scope& operator=(scope const&) = delete;

private:
  builder& owner_;
  name_ref outer_scope_;
  int outer_line_;
};

} // namespace constrain
