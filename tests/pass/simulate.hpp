#pragma once

#include "cell_marks.hpp"
#include "programs.hpp"

#include <constrain/op/concatenate/concatenate.hpp>
#include <constrain/op/reshape/reshape.hpp>
#include <constrain/op/stack/stack.hpp>
#include <constrain/run/executor.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// Simulates a planned program without its kernels and tracks every byte: an independent check of memory planning,
/// lowering and the passes before them. Every two bytes have two marks: which instance of which value is stored there,
/// and how it was computed, a hash of the op and its inputs. Passes that must not change results must not change the
/// hashes of the final values.
namespace constrain::test {

struct simulation {
  std::vector<std::string> errors;
  std::int64_t calls = 0;
  std::int64_t live_peak = 0;        // the most bytes of values that are alive at once, by the order of execution
  std::map<int, std::uint64_t> left; // how each parameter, state, gradient and result was computed
};

namespace detail {

/// A view is a part of what it is a view of.
inline ref full_of(program const& p, ref r) {
  while (p.values[r.value].view) r = p.values[r.value].view.of;
  return r;
}

/// Which instance of a value each reference means, computed only from the program. All instances have tags; those of
/// one value follow each other.
class instances {
public:
  explicit instances(program const& p) : p_(p), nest_(p) {
    for (int v = 0, next = 0; v < p.values.size(); ++v) {
      auto const& info = p.values[v];
      std::int64_t stacked = 1;
      for (int axis : info.axes) stacked *= p.axes[axis].extent;
      values_.push_back({next, stacked, info.is_loop_carried() ? p.axes[info.loop_carried_axis].extent + 1 : 1});
      next += static_cast<int>(stacked * values_.back().carried);
      end_ = next;
    }
    for (int i = 0; i < p.nodes.size(); ++i) {
      for (auto const& r : p.nodes[i].inputs) add(full_of(p, r), i);
      for (auto const& r : p.nodes[i].outputs) add(full_of(p, r), i);
    }
  }

  /// The tags of a value are [begin(v), begin(v + 1)).
  int begin(int v) const { return v < p_.values.size() ? values_[static_cast<std::size_t>(v)].first : end_; }

  /// Operand `k` of the plan, of which a call works on `count` instances: the tag of instance `t`. -1: there is no such
  /// instance.
  int tag(int k, std::int64_t t, std::int64_t count, loop_state const& state) const {
    auto const& r = references_[static_cast<std::size_t>(k)];
    auto const& of = values_[static_cast<std::size_t>(r.value)];
    if (p_.values[r.value].role == role::input) return of.first;
    std::int64_t position = 0;
    for (int c = r.first; c < r.first + r.coordinates; ++c) {
      auto const& at = coordinates_[static_cast<std::size_t>(c)];
      auto index = at.constant;
      for (int term = at.first; term < at.end; ++term)
        index +=
            state.index[terms_[static_cast<std::size_t>(term)].axis] * terms_[static_cast<std::size_t>(term)].stride;
      if (index < 0 || index >= at.extent) return -1;
      bool const along_axes = c < r.first + p_.values[r.value].axes.size();
      if (along_axes && count > 1) position = t % of.stacked; // the call works on all of them
      else position = position * at.extent + index;
    }
    return of.first + static_cast<int>(position);
  }

private:
  struct value_tags {
    int first = 0;
    std::int64_t stacked = 1, carried = 1; // instances along the axes; along the loop that carries the value
  };
  /// The index along one axis: constant + sum of terms, in [0, extent).
  struct coordinate {
    int first = 0, end = 0; // among the terms
    std::int64_t constant = 0, extent = 1;
  };
  struct reference {
    int value = -1;
    int first = 0, coordinates = 0; // along the value's axes, outermost first; then along the loop that carries it
  };

  void add(ref r, int i) {
    auto const& info = p_.values[r.value];
    references_.push_back({r.value, static_cast<int>(coordinates_.size()), 0});
    for (int axis : info.axes) along(axis, i, p_.axes[axis].extent);
    if (info.is_loop_carried()) {
      auto const extent = p_.axes[info.loop_carried_axis].extent;
      bool const moves = r.where == at::current || r.where == at::next;
      along(moves ? info.loop_carried_axis : -1, i, extent + 1);
      coordinates_.back().constant = r.where == at::next ? 1 : r.where == at::final ? extent : 0;
    }
    references_.back().coordinates = static_cast<int>(coordinates_.size()) - references_.back().first;
  }

  /// Adds the index that node i has along an axis. -1: always 0.
  void along(int axis, int i, std::int64_t extent) {
    int const first = static_cast<int>(terms_.size());
    for (int loop = nest_.parent[i]; loop != nest::root && axis >= 0; loop = nest_.parent[loop]) {
      int const open = p_.nodes[loop].axis;
      if (open == axis) {
        terms_.resize(static_cast<std::size_t>(first));
        terms_.push_back({axis, 1});
        break;
      }
      if (p_.axes[open].original == axis) terms_.push_back({open, p_.axes[open].factor});
    }
    coordinates_.push_back({first, static_cast<int>(terms_.size()), 0, extent});
  }

  program const& p_;
  nest nest_;
  std::vector<value_tags> values_;
  std::vector<reference> references_; // by the plan's operand
  std::vector<coordinate> coordinates_;
  std::vector<index_term> terms_;
  int end_ = 0;
};

inline unsigned last_adds = 0;
inline std::uint64_t last_iteration = 0;
inline void no_kernel(call const& c, bound_operand const*) {
  last_adds = c.adds;
  last_iteration = c.iteration;
}

class watch {
public:
  watch(program const& p, memory_layout const& where, operand const* table, std::byte* arena, simulation& out)
      : p(p), n_(p), where(where), table(table), arena(arena), end(where.end), out(out), tags(p), held(end / cell + 1),
        made(end / cell + 1), alive(static_cast<std::size_t>(tags.begin(p.values.size()))) {
    for (int v = 0; v < p.values.size(); ++v)
      if (is_persistent(p.values[v].role) || p.values[v].role == role::input)
        made.fill(where.buffers[v].offset / cell, where.buffers[v].size / cell, static_cast<std::uint64_t>(v), 0);
  }

  void error(int i, std::string const& text) {
    if (out.errors.size() < 5)
      out.errors.push_back("node " + std::to_string(i) + " (" + p.nodes[i].op->name + "): " + text);
  }

  static std::int64_t stored_bytes(value_info const& info) {
    auto const bytes = info.shape.elements() * size_of(info.type);
    // Instances of these touch, the others begin on a line of their own.
    bool const dense = info.role == role::gradient || info.role == role::input || is_compute_copy(info.role);
    return dense ? bytes : (bytes + 63) / 64 * 64;
  }

  void touch(int tag) {
    auto& span = alive[static_cast<std::size_t>(tag)];
    if (span.first < 0) span.first = out.calls;
    span.last = out.calls;
  }

  cell_rows cells(bound_operand const& b, dtype type) const {
    auto const row = b.row_stride == 0 ? b.count : b.shape_of->features();
    auto const rows = row == 0 ? 0 : (b.count + row - 1) / row;
    return {b.data - arena, b.row_stride * size_of(type), rows, row * size_of(type) / cell};
  }

  void before(int i, step const& s, bound_operand const* bound, loop_state const& state) {
    auto const& n = p.nodes[i];
    is_inside = true;
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      operands[k] = cells(bound[k], table[s.first_operand + k].type);
      if (bound[k].data >= arena && operands[k].end() * cell <= end) continue;
      is_inside = false;
      return error(i, "operand " + std::to_string(k) + " lies outside of the arena");
    }
    for (int k = 0; k < s.inputs; ++k) {
      if (is_persistent(p.values[full_of(p, n.inputs[k]).value].role)) continue;
      check_read(i, k, s, bound[k], state);
    }
    // The inputs may be overwritten: what they hold is taken now.
    read = mix(reinterpret_cast<std::uintptr_t>(n.op), static_cast<std::uint64_t>(n.attributes.number[0]));
    if (n.op->draws_random) read = mix(read, static_cast<std::uint64_t>(n.random_key));
    copied.clear();
    for (int k = 0; k < s.inputs; ++k) {
      if (n.op == &info_of<op::constant_like>) break; // depends only on the shape
      operands[k].for_each_run(0, operands[k].size(), [&](std::int64_t first, std::int64_t count, std::int64_t) {
        auto const* const marks = made.spelled_out(first, count);
        for (std::int64_t c = 0; c < count; ++c) read = mix(read, marks[c]);
      });
    }
    copy_marks(i, s, state);
  }

private:
  /// The output of a call that only moves elements.
  void copy_marks(int i, step const& s, loop_state const& state) {
    auto const& n = p.nodes[i];
    auto const take = [&](int k, std::int64_t from, std::int64_t count) {
      operands[k].for_each_run(from, count, [&](std::int64_t first, std::int64_t length, std::int64_t) {
        auto const* const marks = made.spelled_out(first, length);
        copied.insert(copied.end(), marks, marks + length);
      });
    };
    if (n.op == &info_of<op::copy> || n.op == &info_of<op::reshape> || n.op == &info_of<op::stack>)
      take(0, 0, operands[0].size());
    bool const cuts = n.op == &info_of<op::slice>, joins = n.op == &info_of<op::concatenate>;
    if (!cuts && !joins) return;
    auto const& part = p.values[cuts ? n.outputs[0].value : n.inputs[0].value];
    auto const& whole = p.values[cuts ? n.inputs[0].value : n.outputs[0].value].shape;
    int const dimension = static_cast<int>(n.attributes.number[0]);
    auto begin = n.attributes.number[1];
    if (cuts && n.attributes.number[3] > 1) begin += state.index[p.nodes[n_.parent[i]].axis] * n.attributes.number[2];
    auto const inner = inner_elements(part.shape, dimension) * size_of(part.type) / cell;
    auto const outer = operands[cuts ? 0 : s.inputs].size() / inner / whole.extent[dimension];
    for (std::int64_t block = 0; block < outer; ++block)
      if (cuts) take(0, (block * whole.extent[dimension] + begin) * inner, part.shape.extent[dimension] * inner);
      else
        for (int k = 0; k < s.inputs; ++k) {
          auto const run = p.values[n.inputs[k].value].shape.extent[dimension] * inner;
          take(k, block * run, run);
        }
  }

  void write(int i, int j, cell_rows const& cells, bool adds) {
    auto const base = p.nodes[i].op->draws_random ? mix(read, last_iteration) : read;
    auto const index = static_cast<std::uint64_t>(j) << 32; // of the first cell
    cells.for_each_run(0, cells.size(), [&](std::int64_t first, std::int64_t count, std::int64_t k) {
      auto const* const moved = copied.empty() ? nullptr : copied.data() + k;
      auto const from = index + static_cast<std::uint64_t>(k);
      if (adds) {
        auto* const marks = made.spelled_out(first, count);
        for (std::int64_t c = 0; c < count; ++c)
          marks[c] = mix(marks[c], moved != nullptr ? moved[c] : mix(base, from + static_cast<std::uint64_t>(c)));
      } else if (moved != nullptr) std::copy(moved, moved + count, made.overwritten(first, count));
      else made.fill(first, count, base, from);
    });
  }

  void expect(int i, ref r, int tag, cell_rows const& cells, std::int64_t from, std::int64_t count) {
    bool const from_host = p.values[full_of(p, r).value].role == role::input; // written before the run
    bool as_expected = true;
    cells.for_each_run(from, count, [&](std::int64_t first, std::int64_t length, std::int64_t) {
      as_expected = as_expected && held.expect(first, length, tag, from_host);
    });
    if (!as_expected) error(i, "reads %" + std::to_string(r.value) + " where something else lies");
  }

  /// Calls f(tag, from, count) with the cells [from, from + count) of each instance that an operand has: more than one
  /// where a whole stack is read or written.
  template <class function>
  void for_each_instance(int i, int k, step const& s, bound_operand const& b, loop_state const& state,
                         function const& f) {
    auto const& n = p.nodes[i];
    ref const r = k < s.inputs ? n.inputs[k] : n.outputs[k - s.inputs];
    auto const count = b.count / p.values[r.value].shape.elements();
    auto const each = count == 0 ? 0 : operands[k].size() / count;
    for (std::int64_t t = 0; t < count; ++t) {
      int const tag = tags.tag(s.first_operand + k, t, count, state);
      if (tag < 0) error(i, "means an instance of %" + std::to_string(r.value) + " that does not exist");
      else f(tag, t * each, each);
    }
  }

  void check_read(int i, int k, step const& s, bound_operand const& b, loop_state const& state) {
    for_each_instance(i, k, s, b, state, [&](int tag, std::int64_t from, std::int64_t count) {
      touch(tag);
      expect(i, p.nodes[i].inputs[k], tag, operands[k], from, count);
    });
  }

public:
  void after(int i, step const& s, bound_operand const* bound, loop_state const& state) {
    for (int j = 0; j < s.outputs && is_inside; ++j) check_write(i, j, s, bound[s.inputs + j], state);
    ++out.calls;
  }

private:
  void check_write(int i, int j, step const& s, bound_operand const& b, loop_state const& state) {
    auto const& n = p.nodes[i];
    auto const& info = p.values[n.outputs[j].value];
    auto const& cells = operands[s.inputs + j];
    if (is_persistent(info.role)) return write(i, j, cells, true);
    bool const adds = info.accumulates && (last_adds >> j & 1u) != 0;
    write(i, j, cells, adds);
    // Exchanged in place, also into a part of the input; or a gradient, its full tensor, or a parameter's working
    // copy, that an op which cannot add replaces.
    bool const exchanged = info.role == role::gradient || info.role == role::communication ||
                           (info.role == role::workspace && info.belongs_to >= 0);
    bool const in_place = n.inputs.contains(n.outputs[j]) || (info.view && n.inputs.contains(info.view.of) && !adds);
    bool const replaced = in_place || (exchanged && (n.op->accumulating >> j & 1u) == 0);
    for_each_instance(i, s.inputs + j, s, b, state, [&](int tag, std::int64_t from, std::int64_t count) {
      bool const again = alive[static_cast<std::size_t>(tag)].first >= 0;
      if (info.accumulates && !replaced && again != adds)
        error(i, adds ? "adds to what was never written" : "overwrites a sum");
      if (info.accumulates && again) expect(i, n.outputs[j], tag, cells, from, count);
      touch(tag);
      cells.for_each_run(from, count,
                         [&](std::int64_t first, std::int64_t length, std::int64_t) { held.set(first, length, tag); });
    });
  }

public:
  void finish() {
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& info = p.values[v];
      auto const& buffer = where.buffers[v];
      if (!(is_observed(info) || info.role == role::gradient) || buffer.offset < 0) continue;
      std::uint64_t all = 0;
      // A gradient whose instances share bytes has fewer of them, and may lie at the end of the arena.
      auto const all_instances = info.shape.elements() * size_of(info.type) * p.iterations(info);
      auto const count = std::min(all_instances, end - buffer.offset) / cell;
      auto const* const marks = made.spelled_out(buffer.offset / cell, count);
      for (std::int64_t c = 0; c < count; ++c) all = mix(all, marks[c]);
      out.left[v] = all;
    }
    // Values that stay readable after the run live to its end.
    std::vector<std::int64_t> change(static_cast<std::size_t>(out.calls) + 2);
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& info = p.values[v];
      for (int tag = tags.begin(v); tag < tags.begin(v + 1); ++tag) {
        auto [first, last] = alive[static_cast<std::size_t>(tag)];
        if (first < 0) continue;
        if (info.role == role::result || info.role == role::gradient) last = out.calls - 1;
        if (info.role == role::input) first = 0;
        change[static_cast<std::size_t>(first)] += stored_bytes(info);
        change[static_cast<std::size_t>(last) + 1] -= stored_bytes(info);
      }
    }
    std::int64_t now = 0;
    for (auto c : change) out.live_peak = std::max(out.live_peak, now += c);
  }

private:
  /// The first and last call that touch an instance; -1: none.
  struct lifetime {
    std::int64_t first = -1, last = -1;
  };

  program const& p;
  nest n_;
  memory_layout const& where;
  operand const* table; // of the plan
  std::byte* arena;
  std::int64_t end;
  simulation& out;
  instances tags;
  holders held;                                                     // which instance is stored in every cell
  origins made;                                                     // and how it was computed
  std::vector<lifetime> alive;                                      // by tag
  std::uint64_t read = 0;                                           // of the call that is running
  cell_rows operands[node::maximum_inputs + node::maximum_outputs]; // of the call that is running
  bool is_inside = true;                                            // whether all of them are in the arena
  std::vector<std::uint64_t> copied;                                // by a call that only moves elements
};

/// As `simulate`, with a plan for at most `steps` nodes and `operands` operands.
template <int steps, int operands> simulation simulate_within(program const& p, memory_layout const& where) {
  simulation out;
  using table_type = plan<steps, operands>;
  std::unique_ptr<table_type> const table(new table_type(lower<steps, operands>(p, where)));
  std::vector<launcher> const launchers(static_cast<std::size_t>(steps), &no_kernel);
  // Nothing is stored here: only addresses matter.
  auto const arena = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(where.end) + 64);
  plan_view view{table->steps, p.nodes.size(), table->operands, table->axes, table->micro_batches};
  view.launchers = launchers.data();
  watch watch(p, where, table->operands, arena.get(), out);
  struct hooks {
    detail::watch& w;
    void before(int i, step const& s, bound_operand const* b, loop_state const& l) { w.before(i, s, b, l); }
    void after(int i, step const& s, bound_operand const* b, loop_state const& l) { w.after(i, s, b, l); }
  };
  execute(view, arena.get(), step_parameters{}, hooks{watch});
  watch.finish();
  return out;
}

} // namespace detail

/// Runs the program of a step. Every read must find the instance that the program means, the first write of a sum must
/// overwrite, all other writes must add, and no operand may be outside of the arena.
inline simulation simulate(program const& p, memory_layout const& where) {
  // A plan has the size of its tables, and most programs are small.
  bool const is_small = p.nodes.size() <= 192 && count_operands(p) <= 768;
  return is_small ? detail::simulate_within<192, 768>(p, where)
                  : detail::simulate_within<program::maximum_nodes, 4096>(p, where);
}

} // namespace constrain::test
