#pragma once

#include "constrain/program/builder.hpp"

#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A tensor while a model is written: a place in a program. Operations are free functions on values.
class value {
public:
  constexpr value() = default;
  /// A reference into the program of `owner`.
  constexpr value(constrain::builder& owner, ref where) : owner_(&owner), where_(where) {}

  /// Extents, [sequences, tokens, features] for an activation.
  constexpr constrain::shape shape() const { return info().shape; }
  constexpr dtype type() const { return info().type; }
  /// The innermost extent.
  constexpr int features() const { return static_cast<int>(shape().features()); }
  constexpr explicit operator bool() const { return static_cast<bool>(where_); }

  // For those who write operations.
  constexpr constrain::builder& owner() const { return *owner_; }
  /// Which value of the program it is, and what the program knows of it.
  constexpr ref where() const { return where_; }
  constexpr value_info const& info() const { return owner_->program.values[where_.value]; }

private:
  constrain::builder* owner_ = nullptr;
  ref where_;
};

/// A value and the line that passes it: how an operator knows the line it stands in.
struct value_at_line {
  constrain::value value;
  int line;
  /// Implicit, so that the line is that of the expression.
  constexpr value_at_line(constrain::value v, int at = __builtin_LINE()) : value(v), line(at) {}
};

namespace detail {

/// Appends a call of `op` and returns the node, outputs filled in. Every input must belong to one program.
template <class op> constexpr node emit_node(std::initializer_list<value> inputs, attributes const& a, int line) {
  static_assert(sizeof(named<op>) > 0);
  auto& owner = inputs.begin()->owner();
  node n;
  n.attributes = a;
  n.line = line;
  // Calls that draw are counted alone, so that no other node changes what is drawn.
  if (info_of<op>.draws_random) n.random_key = ++owner.random_keys;
  // A program that is refused is written no further: the first reason counts, and compilers bound their work.
  if (!owner.program.failure.ok()) return n;
  for (auto const& input : inputs) {
    if (&input.owner() != &owner) owner.program.fail({why::values_of_two_programs, line, owner.called_from, 0, 0});
    if (!n.inputs.push_back(input.where()))
      owner.program.fail(
          {why::too_many_operands, line, owner.called_from, node::maximum_inputs, node::maximum_inputs + 1});
    if (owner.program.failure.ok()) owner.check_reach(input.where(), line);
  }
  return owner.append(info_of<op>, n);
}

} // namespace detail

/// Appends a call of `op` and returns its first output: how an operation's free function is written.
template <class op>
constexpr value emit(std::initializer_list<value> inputs, attributes const& a = {}, int line = __builtin_LINE()) {
  auto& owner = inputs.begin()->owner();
  auto const n = detail::emit_node<op>(inputs, a, line);
  // A refused call has no output; its first input stands in until the failure is reported.
  return n.outputs.empty() ? *inputs.begin() : value{owner, n.outputs[0]};
}

/// A trainable tensor of the program `like` belongs to, named "scope.name" and stacked by the repeats around it.
constexpr value parameter(value like, std::string_view name, shape s, role r, initial_value initial = {},
                          int line = __builtin_LINE()) {
  auto& owner = like.owner();
  auto& program = owner.program;
  if (!program.failure.ok()) return like;
  if (!is_parameter(r)) program.fail({why::role_of_no_parameter, line, owner.called_from, 0, static_cast<int>(r)});
  value_info info;
  info.type = owner.real;
  info.role = r;
  info.shape = s;
  info.axes = owner.enclosing;
  info.initial = initial;
  info.line = line;
  info.name = program.names.add(program.text(owner.scope), name);
  if (info.name.length == 0)
    program.fail({why::program_too_large, line, owner.called_from, name_pool::capacity, name_pool::capacity + 1});
  for (auto const& other : program.values)
    if (other.name.hash == info.name.hash && is_parameter(other.role) &&
        program.text(other.name) == program.text(info.name))
      program.fail({why::parameter_named_twice, line, owner.called_from, other.line, line});
  return {owner, {owner.add_checked(info), at::current}};
}

/// Parameter names inside begin with "name.", failures inside are reported as called from here.
class scope {
public:
  /// `line` is where the layer is called.
  constexpr scope(builder& owner, std::string_view name, int line)
      : owner_(owner), outer_scope_(owner.scope), outer_line_(owner.called_from) {
    owner.scope = owner.program.names.add(owner.program.text(owner.scope), name);
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
