#pragma once

#include "programs.hpp"

#include <constrain/op/concatenate/concatenate.hpp>
#include <constrain/op/reshape/reshape.hpp>
#include <constrain/op/stack/stack.hpp>
#include <constrain/run/executor.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
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

using big_plan = plan<program::maximum_nodes, 4096>;

/// Which instance of a value a reference means, computed only from the program.
struct instance {
  int value = -1;
  std::vector<std::int64_t> at;
  auto operator<=>(instance const&) const = default;
};

inline std::int64_t index_along(program const& p, int axis, std::vector<int> const& open, loop_state const& state) {
  for (int a : open)
    if (a == axis) return state.index[axis];
  std::int64_t index = 0;
  for (int a : open)
    if (p.axes[a].whole == axis) index += p.axes[a].factor * state.index[a];
  return index;
}

/// A view is a part of what it is a view of.
inline ref full_of(program const& p, ref r) {
  while (p.values[r.value].view) r = p.values[r.value].view.of;
  return r;
}

inline instance instance_of(program const& p, ref part, std::vector<int> const& open, loop_state const& state) {
  ref const r = full_of(p, part);
  auto const& info = p.values[r.value];
  instance out{r.value, {}};
  for (int axis : info.axes) out.at.push_back(index_along(p, axis, open, state));
  if (!info.is_loop_carried()) return out;
  auto const extent = p.axes[info.loop_carried_axis].extent;
  if (r.where == at::initial) out.at.push_back(0);
  else if (r.where == at::final) out.at.push_back(extent);
  else out.at.push_back(index_along(p, info.loop_carried_axis, open, state) + (r.where == at::next ? 1 : 0));
  return out;
}

inline constexpr std::int64_t cell = 2; // bytes that are watched together

inline unsigned last_adds = 0;
inline std::uint64_t last_iteration = 0;
inline void no_kernel(call const& c, bound_operand const*) {
  last_adds = c.adds;
  last_iteration = c.iteration;
}

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  auto x = a * 0x9E3779B97F4A7C15ull + b;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
  return x ^ x >> 32;
}

class watch {
public:
  watch(program const& p, memory_layout const& where, big_plan const& table, std::byte* arena, simulation& out)
      : p(p), n_(p), where(where), table(table), arena(arena), end(where.end), out(out),
        tags(static_cast<std::size_t>(end / cell + 1), -1), made(tags.size()) {
    for (int i = 0; i < p.nodes.size(); ++i) {
      open.emplace_back();
      for (int loop = n_.parent[i]; loop != nest::root; loop = n_.parent[loop])
        open.back().push_back(p.nodes[loop].axis);
    }
    for (int v = 0; v < p.values.size(); ++v)
      if (is_persistent(p.values[v].role) || p.values[v].role == role::input)
        for (std::int64_t word = 0; word < where.buffers[v].size / cell; ++word)
          at(where.buffers[v].offset / cell + word) =
              mix(static_cast<std::uint64_t>(v), static_cast<std::uint64_t>(word));
  }

  int number(instance const& i) { return numbers.try_emplace(i, static_cast<int>(numbers.size())).first->second; }

  void error(int i, std::string const& text) {
    if (out.errors.size() < 5)
      out.errors.push_back("node " + std::to_string(i) + " (" + p.nodes[i].op->name + "): " + text);
  }

  static std::int64_t stored_bytes(value_info const& info) {
    auto const bytes = info.shape.elements() * size_of(info.type);
    // Instances of these touch, the others begin on a line of their own.
    bool const dense = info.role == role::gradient || info.role == role::input || info.role == role::compute_copy;
    return dense ? bytes : (bytes + 63) / 64 * 64;
  }

  void touch(int tag, std::int64_t bytes) {
    auto& span = alive.try_emplace(tag, out.calls, out.calls).first->second;
    span.second = out.calls;
    size[tag] = bytes;
  }

  /// The cells of an operand, in the order of its elements.
  std::vector<std::int64_t> cells(bound_operand const& b, dtype type) const {
    std::vector<std::int64_t> out;
    auto const row = b.row_stride == 0 ? b.count : b.shape_of->features();
    for (std::int64_t from = 0; from < b.count; from += row) {
      auto const begin = b.data - arena + from / row * b.row_stride * size_of(type);
      for (auto at = begin; at < begin + row * size_of(type) / cell * cell; at += cell) out.push_back(at / cell);
    }
    return out;
  }

  void before(int i, step const& s, bound_operand const* bound, loop_state const& state) {
    auto const& n = p.nodes[i];
    operands.clear();
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      operands.push_back(cells(bound[k], table.operands[s.first_operand + k].type));
      if (bound[k].data < arena || (operands.back().back() + 1) * cell > end)
        return error(i, "operand " + std::to_string(k) + " lies outside of the arena");
    }
    for (int k = 0; k < s.inputs; ++k) {
      if (is_persistent(p.values[full_of(p, n.inputs[k]).value].role)) continue;
      check_read(i, k, bound[k], state);
    }
    // The inputs may be overwritten: what they hold is taken now.
    read = mix(reinterpret_cast<std::uintptr_t>(n.op), static_cast<std::uint64_t>(n.attributes.number[0]));
    if (n.op->draws_random) read = mix(read, static_cast<std::uint64_t>(n.random_key));
    copied.clear();
    for (int k = 0; k < s.inputs; ++k) {
      if (n.op == &info_of<op::constant_like>) break; // depends only on the shape
      for (auto word : operands[static_cast<std::size_t>(k)]) read = mix(read, at(word));
    }
    copy_marks(i, s, state);
  }

private:
  /// The output of a call that only moves elements.
  void copy_marks(int i, step const& s, loop_state const& state) {
    auto const& n = p.nodes[i];
    auto const marks = [&](int k) -> std::vector<std::int64_t> const& { return operands[static_cast<std::size_t>(k)]; };
    if (n.op == &info_of<op::copy> || n.op == &info_of<op::reshape> || n.op == &info_of<op::stack>)
      for (auto word : marks(0)) copied.push_back(at(word));
    bool const cuts = n.op == &info_of<op::slice>, joins = n.op == &info_of<op::concatenate>;
    if (!cuts && !joins) return;
    auto const& part = p.values[cuts ? n.outputs[0].value : n.inputs[0].value];
    auto const& whole = p.values[cuts ? n.inputs[0].value : n.outputs[0].value].shape;
    int const dimension = static_cast<int>(n.attributes.number[0]);
    auto begin = n.attributes.number[1];
    if (cuts && n.attributes.number[3] > 1) begin += state.index[p.nodes[n_.parent[i]].axis] * n.attributes.number[2];
    auto const inner = inner_elements(part.shape, dimension) * size_of(part.type) / cell;
    auto const outer = static_cast<std::int64_t>(marks(cuts ? 0 : s.inputs).size()) / inner / whole.extent[dimension];
    for (std::int64_t block = 0; block < outer; ++block) {
      if (cuts)
        for (std::int64_t w = 0; w < part.shape.extent[dimension] * inner; ++w)
          copied.push_back(
              at(marks(0)[static_cast<std::size_t>((block * whole.extent[dimension] + begin) * inner + w)]));
      else
        for (int k = 0; k < s.inputs; ++k) {
          auto const run = p.values[n.inputs[k].value].shape.extent[dimension] * inner;
          for (std::int64_t w = 0; w < run; ++w)
            copied.push_back(at(marks(k)[static_cast<std::size_t>(block * run + w)]));
        }
    }
  }

  std::uint64_t& at(std::int64_t word) { return made[static_cast<std::size_t>(word)]; }

  void write(int i, int j, std::vector<std::int64_t> const& words, bool adds) {
    auto const& n = p.nodes[i];
    auto const base = n.op->draws_random ? mix(read, last_iteration) : read;
    for (std::size_t w = 0; w < words.size(); ++w) {
      auto value = mix(base, static_cast<std::uint64_t>(j) << 32 | static_cast<std::uint64_t>(w));
      if (!copied.empty()) value = copied[w];
      auto& word = at(words[w]);
      word = adds ? mix(word, value) : value;
    }
  }

  /// Instance `t` of those that a reference means: more than one where a whole stack is read or written.
  instance one_of(int i, ref r, std::int64_t t, std::int64_t instances, loop_state const& state) const {
    auto const& info = p.values[full_of(p, r).value];
    auto which = instance_of(p, r, open[static_cast<std::size_t>(i)], state);
    for (int a = info.axes.size() - 1; a >= 0 && instances > 1; --a) {
      which.at[static_cast<std::size_t>(a)] = t % p.axes[info.axes[a]].extent;
      t /= p.axes[info.axes[a]].extent;
    }
    if (info.role == role::input) which.at.clear();
    return which;
  }

  void expect(int i, ref r, int tag, std::span<std::int64_t const> words) {
    for (auto word : words)
      if (auto& found = tags[static_cast<std::size_t>(word)]; found != tag) {
        bool const host = p.values[full_of(p, r).value].role == role::input && found == -1; // written before the run
        if (!host) return error(i, "reads %" + std::to_string(r.value) + " where something else lies");
        found = tag;
      }
  }

  /// The cells of instance `t` of those that an operand has.
  static std::span<std::int64_t const> cells_of(std::vector<std::int64_t> const& words, std::int64_t t,
                                                std::int64_t instances) {
    auto const each = words.size() / static_cast<std::size_t>(instances);
    return std::span(words).subspan(static_cast<std::size_t>(t) * each, each);
  }

  void check_read(int i, int k, bound_operand const& b, loop_state const& state) {
    ref const r = p.nodes[i].inputs[k];
    auto const instances = b.count / p.values[r.value].shape.elements();
    for (std::int64_t t = 0; t < instances; ++t) {
      int const tag = number(one_of(i, r, t, instances, state));
      touch(tag, stored_bytes(p.values[full_of(p, r).value]));
      expect(i, r, tag, cells_of(operands[static_cast<std::size_t>(k)], t, instances));
    }
  }

public:
  void after(int i, step const& s, bound_operand const* bound, loop_state const& state) {
    auto const& n = p.nodes[i];
    for (int j = 0; j < s.outputs; ++j) {
      auto const& info = p.values[n.outputs[j].value];
      auto const& b = bound[s.inputs + j];
      auto const& words = operands[static_cast<std::size_t>(s.inputs + j)];
      if (is_persistent(info.role)) {
        write(i, j, words, true);
        continue;
      }
      auto const instances = b.count / info.shape.elements();
      bool const adds = info.accumulates && (last_adds >> j & 1u) != 0;
      write(i, j, words, adds);
      for (std::int64_t t = 0; t < instances; ++t) {
        int const tag = number(one_of(i, n.outputs[j], t, instances, state));
        bool const again = alive.contains(tag);
        // Exchanged in place, also into a part of the input; or a gradient, its full tensor, or a parameter's working
        // copy, that an op which cannot add replaces.
        bool const exchanged = info.role == role::gradient || info.role == role::communication ||
                               (info.role == role::workspace && info.belongs_to >= 0);
        bool const in_place =
            n.inputs.contains(n.outputs[j]) || (info.view && n.inputs.contains(info.view.of) && !adds);
        bool const replaced = in_place || (exchanged && (n.op->accumulating >> j & 1u) == 0);
        if (info.accumulates && !replaced && again != adds)
          error(i, adds ? "adds to what was never written" : "overwrites a sum");
        auto const of_instance = cells_of(words, t, instances);
        if (info.accumulates && again) expect(i, n.outputs[j], tag, of_instance);
        touch(tag, stored_bytes(p.values[full_of(p, n.outputs[j]).value]));
        for (auto word : of_instance) tags[static_cast<std::size_t>(word)] = tag;
      }
    }
    ++out.calls;
  }

public:
  void finish() {
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& info = p.values[v];
      auto const& buffer = where.buffers[v];
      if (!(is_observed(info) || info.role == role::gradient) || buffer.offset < 0) continue;
      std::uint64_t all = 0;
      auto const bytes = info.shape.elements() * size_of(info.type) * p.iterations(info);
      for (std::int64_t w = 0; w < bytes / cell; ++w) all = mix(all, at(buffer.offset / cell + w));
      out.left[v] = all;
    }
    // Values that stay readable after the run live to its end.
    std::vector<std::int64_t> change(static_cast<std::size_t>(out.calls) + 2);
    for (auto const& [which, tag] : numbers) {
      auto const role = p.values[which.value].role;
      auto [first, last] = alive.at(tag);
      if (role == role::result || role == role::gradient) last = out.calls - 1;
      if (role == role::input) first = 0;
      change[static_cast<std::size_t>(first)] += size.at(tag);
      change[static_cast<std::size_t>(last) + 1] -= size.at(tag);
    }
    std::int64_t now = 0;
    for (auto c : change) out.live_peak = std::max(out.live_peak, now += c);
  }

private:
  program const& p;
  nest n_;
  memory_layout const& where;
  big_plan const& table;
  std::byte* arena;
  std::int64_t end;
  simulation& out;
  std::vector<std::vector<int>> open;                         // the axes of the loops around each node
  std::map<instance, int> numbers;                            // of the instances met so far
  std::vector<int> tags;                                      // the instance stored in every two bytes
  std::vector<std::uint64_t> made;                            // and how it was computed
  std::map<int, std::pair<std::int64_t, std::int64_t>> alive; // first and last call that touch an instance
  std::map<int, std::int64_t> size;
  std::uint64_t read = 0;                          // of the call that is running
  std::vector<std::vector<std::int64_t>> operands; // of the call that is running: the cells of each
  std::vector<std::uint64_t> copied;               // by a call that only moves elements
};

} // namespace detail

/// Runs the program of a step. Every read must find the instance that the program means, the first write of a sum must
/// overwrite, all other writes must add, and no operand may be outside of the arena.
inline simulation simulate(program const& p, memory_layout const& where) {
  simulation out;
  auto const table = std::make_unique<detail::big_plan>(lower<program::maximum_nodes, 4096>(p, where));
  std::vector<launcher> const launchers(program::maximum_nodes, &detail::no_kernel);
  std::vector<std::byte> arena(static_cast<std::size_t>(where.end) + 64);
  plan_view view{table->steps, p.nodes.size(), table->operands, table->axes, table->micro_batches};
  view.launchers = launchers.data();
  detail::watch watch(p, where, *table, arena.data(), out);
  struct hooks {
    detail::watch& w;
    void before(int i, step const& s, bound_operand const* b, loop_state const& l) { w.before(i, s, b, l); }
    void after(int i, step const& s, bound_operand const* b, loop_state const& l) { w.after(i, s, b, l); }
  };
  execute(view, arena.data(), step_parameters{}, hooks{watch});
  watch.finish();
  return out;
}

} // namespace constrain::test
