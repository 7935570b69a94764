#pragma once

#include "constrain/op/cast/cast.hpp"
#include "constrain/pass/mixed_precision.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/program/location.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The nodes of a program that write compute copies and their parameters.
class copy_writers {
public:
  constexpr explicit copy_writers(program const& p) : p_(p), loops_(p) {
    for (int v = 0; v < p.values.size(); ++v) first_[v] = last_[v] = last_read_[v] = -1;
    for (int i = 0; i < p.nodes.size(); ++i) {
      for (auto const& input : p.nodes[i].inputs) last_read_[input.value] = i;
      for (auto const& output : p.nodes[i].outputs) record(root_of(p, output).value, i);
    }
  }

  /// Whether value v is the compute copy of a parameter of two or more dimensions.
  constexpr bool is_copy(int v) const {
    return p_.values[v].role == role::compute_copy && has_compute_copy(p_.values[p_.values[v].belongs_to]);
  }
  /// Whether one cast outside of all loops writes all of the copy v, before any node writes the parameter.
  constexpr bool is_written_first(int v) const {
    int const i = first_[v], parameter = p_.values[v].belongs_to;
    if (i < 0 || i != last_[v] || loops_.parent[i] != nest::root) return false;
    auto const& n = p_.nodes[i];
    bool const is_cast = calls(n, info_of<op::cast>) && n.inputs[0] == ref{parameter, at::current};
    return is_cast && n.outputs[0].value == v && (first_[parameter] < 0 || first_[parameter] > i);
  }
  /// The node that casts the parameter to the copy v.
  constexpr int cast_of(int v) const { return first_[v]; }
  /// The last node that writes the parameter of the copy v; -1: none.
  constexpr int last_write(int v) const { return last_[p_.values[v].belongs_to]; }
  /// Whether the last node that writes the parameter of the copy v could also write the copy: a call outside of all
  /// loops to an op with a `copying_form`, after the last node that reads the copy.
  constexpr bool can_write_both(int v) const {
    int const i = last_write(v);
    if (i < 0 || p_.nodes[i].kind != node_kind::call || loops_.parent[i] != nest::root) return false;
    auto const& n = p_.nodes[i];
    return n.op->has_copying_form && n.outputs[0] == ref{p_.values[v].belongs_to, at::current} && last_read_[v] < i &&
           n.outputs.size() < node::maximum_outputs;
  }

private:
  constexpr void record(int value, int i) {
    if (first_[value] < 0) first_[value] = i;
    last_[value] = i;
  }

  program const& p_;
  nest loops_;
  int first_[program::maximum_values]{}, last_[program::maximum_values]{}; // nodes that write the value; -1: none
  int last_read_[program::maximum_values]{};                               // the last node that reads it; -1: none
};

} // namespace detail

/// Whether `keep_copies` changes the program `p`: it has compute copies of parameters of two or more dimensions, each
/// written by one cast before the parameter changes, and no averages. (A trainer with optimizer::averaged evaluates
/// with the averages, which the copies of the step do not hold.)
constexpr bool can_keep_copies(program const& p) {
  if (!p.failure.ok()) return false;
  detail::copy_writers const writers(p);
  bool any = false;
  for (int v = 0; v < p.values.size(); ++v) {
    if (p.values[v].is_average || (writers.is_copy(v) && !writers.is_written_first(v))) return false;
    any = any || writers.is_copy(v);
  }
  return any;
}

/// Lets compute copies (`mixed_precision`) keep their bytes from one run to the next, so that a run need not cast
/// parameters that have not changed since: the casts at the beginning are removed, and the step instead writes the copy
/// of each parameter that it has updated. `fuses`: whether the update itself writes the copy, if its op can
/// (`op_info::copying_form`); otherwise, and for parameters that are updated in a loop, the cast is at the end of the
/// program. After any other change of a parameter, the trainer runs the program `casts_of_kept_copies`. The biases of
/// linear layers are still cast in every run. Precondition: `can_keep_copies(p)`.
constexpr program keep_copies(program const& p, bool fuses) {
  detail::copy_writers const writers(p);
  bool is_removed[program::maximum_nodes]{};
  int copy_written_by[program::maximum_nodes]{}; // by index of a call that is to write a copy, too: the copy
  for (int& v : copy_written_by) v = -1;
  auto out = without_nodes(p);
  for (int v = 0; v < p.values.size(); ++v) {
    if (!writers.is_copy(v)) continue;
    out.program.values[v].role = role::kept_copy;
    is_removed[writers.cast_of(v)] = true;
    if (fuses && writers.can_write_both(v)) copy_written_by[writers.last_write(v)] = v;
  }
  rewrite_nodes(out, p, 0, p.nodes.size(), [&](builder&, node const& n, int i) {
    if (is_removed[i]) return;
    if (copy_written_by[i] < 0) out.program.add_node(n);
    else n.op->copying_form(out, n, {copy_written_by[i], at::current});
  });
  for (int v = 0; v < p.values.size(); ++v)
    if (writers.is_copy(v) && writers.last_write(v) >= 0 && copy_written_by[writers.last_write(v)] != v)
      out.program.add_node(p.nodes[writers.cast_of(v)]);
  return out.program;
}

/// The program that casts all parameters whose copies the program `p` keeps, and does nothing else. Its persistent
/// values are those of `p`.
constexpr program casts_of_kept_copies(program const& p) {
  auto out = without_nodes(p);
  out.program.ports.count = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    if (info.role != role::kept_copy) continue;
    out.call<op::cast>({{info.belongs_to, at::current}}, {{v, at::current}}, {.to = info.type}, info.line);
  }
  return out.program;
}

} // namespace constrain
