#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/axis.hpp"
#include "constrain/program/diagnosis.hpp"
#include "constrain/program/name.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/part_list.hpp"
#include "constrain/program/port.hpp"
#include "constrain/program/value_info.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The intermediate representation of a model. The model's layers write it, passes transform it, and it is lowered to a
/// plan. A program consists of nodes in execution order, with `loop ... end` around repeated nodes. A value that is
/// defined inside loops has one instance per iteration; the instances together are its stack. In one run, each instance
/// is written once, except in values with `accumulates` and in values that persist (`is_persistent`), such as
/// parameters, optimizer states and settings.
struct program {
  static constexpr int maximum_nodes = 640;     // maximum number of nodes
  static constexpr int maximum_values = 640;    // maximum number of values
  static constexpr int maximum_part_lists = 16; // maximum number of different lists of parts

  fixed_vector<node, maximum_nodes> nodes;                // in execution order
  fixed_vector<value_info, maximum_values> values;        // a `ref` holds an index into them
  fixed_vector<axis_info, maximum_axes> axes;             // a loop and a value's `axes` hold indices into them
  fixed_vector<part_list, maximum_part_lists> part_lists; // of parameters that hold several tensors; no two are equal
  name_pool names;                                        // of parameters, states, settings, scopes and axes
  diagnosis failure;                                      // the first error; passes return a refused program unchanged

  fixed_vector<port, maximum_program_ports> ports; // values that the host writes or reads
  ref loss_scale;           // the setting that multiplies the loss before the backward pass; empty: none
  int micro_batches = -1;   // the axis of gradient accumulation; -1: one micro-batch
  bool distributed = false; // whether `partition` has changed the program for data parallelism
  std::int64_t shards = 1;  // ranks over which a flat tensor is sharded; 1: no tensor is
  int tensor_ranks = 1;     // ranks over which parameters are divided; 1: no parameter is
  int random_keys = 0;      // no call of the program has a greater random key; the next new key is greater by 1

  /// The characters of a name.
  constexpr std::string_view text(name_ref name) const { return names.text(name); }

  /// The value of the port with this kind and name; an empty `ref` if there is no such port.
  constexpr ref find(port_kind kind, std::string_view port_name) const {
    for (auto const& p : ports)
      if (p.kind == kind && p.spec.name == port_name) return p.where;
    return {};
  }
  /// The value of a result ("logits", "loss", ...); an empty `ref` if there is no such result.
  constexpr ref result(std::string_view port_name) const { return find(port_kind::result, port_name); }
  /// Port `index` of a kind, in the order of declaration; a port without a value if `index` is too large.
  constexpr port nth(port_kind kind, int index) const {
    for (auto const& p : ports)
      if (p.kind == kind && index-- == 0) return p;
    return {};
  }
  /// Number of ports of a kind.
  constexpr int count(port_kind kind) const {
    int n = 0;
    for (auto const& p : ports) n += p.kind == kind ? 1 : 0;
    return n;
  }
  /// Adds a port, or replaces the port with the same kind and name. Refuses the program if it has too many ports.
  constexpr void set_port(port const& new_port) {
    for (auto& p : ports)
      if (p.kind == new_port.kind && std::string_view(p.spec.name) == new_port.spec.name) {
        p = new_port;
        return;
      }
    if (!ports.push_back(new_port))
      fail({why::program_too_large, 0, 0, maximum_program_ports, maximum_program_ports + 1});
  }
  /// Makes `r` a result that the host reads under this name.
  constexpr void set_result(char const* port_name, ref r) { set_port({port_kind::result, {.name = port_name}, r}); }
  /// Limits the integers of `r`, which an op uses as indices. If the host writes `r`, the integers must be in [0,
  /// limit); trainers and inference objects check them. The smallest of several limits applies. `ignores`: whether the
  /// op skips each `ignored_label`. The host may pass `ignored_label` only if all ops that limit `r` skip it.
  constexpr void limit(ref r, std::int64_t limit, bool ignores = false) {
    for (auto& p : ports) {
      if (p.kind == port_kind::result || p.where != r) continue;
      if (p.limit == 0 || limit < p.limit) p.limit = limit;
      p.ignorable = p.ignorable && ignores;
    }
  }

  /// Refuses the program with this error, unless the program already has one.
  constexpr void fail(diagnosis d) {
    if (failure.ok()) failure = d;
  }

  /// Appends a value and returns its index. Like all `add_` functions, refuses the program if a capacity is exceeded;
  /// the index is then the index of the last element.
  constexpr int add_value(value_info const& info) {
    if (!values.push_back(info)) fail({why::program_too_large, info.line, 0, maximum_values, maximum_values + 1});
    return values.count - 1;
  }
  /// Appends an axis and returns its index.
  constexpr int add_axis(axis_info const& info) {
    if (!axes.push_back(info)) fail({why::program_too_large, 0, 0, maximum_axes, maximum_axes + 1});
    return axes.count - 1;
  }
  /// Adds the parts of a parameter and returns their index. Equal lists have the same index.
  constexpr int add_parts(part_list const& parts) {
    for (int k = 0; k < part_lists.size(); ++k)
      if (part_lists[k] == parts) return k;
    if (!part_lists.push_back(parts))
      fail({why::too_many_part_lists, 0, 0, maximum_part_lists, maximum_part_lists + 1});
    return part_lists.count - 1;
  }
  /// The parts of a value of shape `s` in one dimension: one part, unless the value is a parameter with parts in this
  /// dimension.
  constexpr part_list parts_along(value_info const& info, shape const& s, int dimension) const {
    if (info.parts >= 0 && part_lists[info.parts].dimension == dimension) return part_lists[info.parts];
    return {s.extent[dimension]};
  }
  /// The full shape of a tensor that is divided over the ranks of a tensor group like `parameter`. `s`: the shape of
  /// one rank's range. If the parameter is not divided, the full shape is `s`.
  constexpr shape shape_of_group(value_info const& parameter, shape s) const {
    if (parameter.divided >= 0)
      s.extent[parameter.divided] = s.extent[parameter.divided] * tensor_ranks - parameter.unused;
    return s;
  }
  /// Whether a value is a divided parameter, or belongs to one (`value_info::belongs_to`; for example, its gradient).
  /// Each rank of a tensor group has only a range of such a value.
  constexpr bool is_divided(int value) const {
    auto const& info = values[value];
    return info.divided >= 0 || (info.belongs_to >= 0 && values[info.belongs_to].divided >= 0);
  }
  /// Appends a node.
  constexpr void add_node(node const& n) {
    if (!nodes.push_back(n)) fail({why::program_too_large, n.line, n.called_from, maximum_nodes, maximum_nodes + 1});
  }
  /// Appends the beginning of a loop. `reversed`: whether the last iteration runs first.
  constexpr void begin_loop(int axis, bool reversed) {
    node loop;
    loop.kind = node_kind::loop;
    loop.axis = axis;
    loop.reversed = reversed;
    add_node(loop);
  }
  /// Appends the end of the innermost loop.
  constexpr void end_loop() {
    node end;
    end.kind = node_kind::end;
    add_node(end);
  }

  /// Index of the node that ends the loop begun by node `begin`; the number of nodes if the loop has no end.
  constexpr int end_of(int begin) const {
    int depth = 0;
    for (int i = begin; i < nodes.count; ++i) {
      if (nodes[i].kind == node_kind::loop) ++depth;
      if (nodes[i].kind == node_kind::end && --depth == 0) return i;
    }
    return nodes.count;
  }

  /// Whether `axis` is `original` or was split from it.
  constexpr bool is_part_of(int axis, int original) const {
    for (; axis >= 0; axis = axes[axis].original)
      if (axis == original) return true;
    return false;
  }

  /// The number of instances of a value over its axes; the axis that a loop-carried value runs along does not count.
  constexpr std::int64_t iterations(value_info const& info) const {
    std::int64_t product = 1;
    for (int axis : info.axes) product *= axes[axis].extent;
    return product;
  }
  /// Whether a loop over the axis, or over an axis that was split from it, is one of the loops over the axes `open`.
  constexpr bool is_open(int axis, axis_list const& open) const {
    for (int open_axis : open)
      if (is_part_of(open_axis, axis)) return true;
    return false;
  }
  /// The number of instances of a value that a call inside loops over the axes `open` works on: the product of the
  /// extents of the value's axes without an open loop.
  constexpr std::int64_t instances(value_info const& info, axis_list const& open) const {
    std::int64_t product = 1;
    for (int axis : info.axes) product *= is_open(axis, open) ? 1 : axes[axis].extent;
    return product;
  }
};

} // namespace constrain
