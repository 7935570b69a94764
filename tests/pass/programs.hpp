#pragma once

#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/model/objective/classification.hpp>
#include <constrain/model/task.hpp>
#include <constrain/op/mean/mean.hpp>
#include <constrain/op/multiply/multiply.hpp>
#include <constrain/op/silu/silu.hpp>
#include <constrain/pass/cost.hpp>
#include <constrain/pass/join_slices.hpp>
#include <constrain/pass/pipeline.hpp>
#include <constrain/policy/policies.hpp>
#include <constrain/program/print.hpp>

#include <cstdint>
#include <string>

/// Small programs for the tests of the passes.
namespace constrain::test {

/// tokens -> table -> product with the table again: a tied weight and no loop.
struct tied {
  constexpr value operator()(value tokens) const {
    auto const table = parameter(tokens, "table", shape(5, 4), role::embedding);
    return linear(silu(embedding(table, tokens)), table);
  }
};

/// One layer, `iterations` times.
template <int iterations> struct chain {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    x = repeat("block", iterations, x, [](value x) { return x + silu(linear("up", x, 4, {.bias = false})); });
    return linear("head", x, 5, {.bias = false});
  }
};

/// A tagger with a repeat in a repeat, one more repeat after it, and a value from outside that both use.
struct tagger {
  constexpr value operator()(value tokens) const {
    auto const outside = embedding("token", tokens, {.vocabulary = 11, .width = 8});
    auto x = repeat("outer", 3, outside, [&](value x) {
      auto const skip = linear("skip", x, 8);
      x = repeat("inner", 2, layer_norm("norm", x),
                 [&](value y) { return y + dropout(silu(linear("up", y, 8))) * skip; });
      return x + outside;
    });
    x = repeat("tail", 5, x, [&](value x) { return x + linear("mix", x, 8, {.bias = false}) * outside; });
    return linear("head", mean(x, axis::tokens), 3);
  }
};

/// A layer in `depth` nested repeats; `idle`: the innermost repeat returns its argument.
template <int depth, bool idle = false> constexpr value nested(value x) {
  if constexpr (depth == 0) return idle ? x : x + silu(linear("up", x, 4));
  else return repeat("block", 2, x, [](value y) { return nested<depth - 1, idle>(y); });
}
template <int depth, bool idle = false> struct nested_model {
  constexpr value operator()(value tokens) const {
    return linear("head", nested<depth, idle>(embedding("token", tokens, {.vocabulary = 5, .width = 4})), 5);
  }
};

inline constexpr gpt2 small_gpt2{.layers = 5, .heads = 2, .width = 8, .vocabulary = 11, .context = 6};

using tied_task = task<tied{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
template <int iterations>
using chain_task = task<chain<iterations>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
template <int depth>
using nested_task = task<nested_model<depth>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
using tagger_task = task<tagger{}, classification, micro_batch{.sequences = 2, .tokens = 3}>;
using gpt2_task = task<small_gpt2, causal_lm, micro_batch{.sequences = 2}>;

/// The passes as tests call them.
constexpr program accumulate_over(program const& p, int micro_batches) {
  return constrain::accumulate_over(p, {.micro_batches = micro_batches});
}
constexpr program recompute(program const& p, int every) {
  return constrain::recompute(p, {.recomputes = every > 0, .iterations = every});
}
constexpr program partition(program const& p, bool distributed, int shards, int stage = 3) {
  return constrain::partition(p, {.distributed = distributed, .stage = stage, .shards = shards});
}
constexpr program fuse(program const& p, bool fuses) { return constrain::fuse(p, {.fuses = fuses}); }
constexpr program mixed_precision(program const& p, dtype compute) {
  return constrain::mixed_precision(p, {.compute = compute});
}
constexpr program select_attention(program const& p, bool tiled) {
  return constrain::select_attention(p, {.tiled = tiled});
}

/// The step's program after some of the passes.
template <class task> constexpr program built(dtype real = dtype::f32) { return task::build(entry::step, real); }
constexpr program differentiated(program const& p, int micro_batches = 1, dtype compute = dtype::f32) {
  auto const accumulated = accumulate_over(dead_code_elimination(p), micro_batches);
  return differentiate(compute == dtype::bf16 ? mixed_precision(accumulated, compute) : accumulated);
}
template <class optimizer = optimizer::adamw>
constexpr program updated(program const& p, int micro_batches = 1, dtype compute = dtype::f32) {
  return update<optimizer>(join_slices(differentiated(p, micro_batches, compute)));
}

/// The number of calls to an op, or to all ops.
constexpr int calls(program const& p, op_info const* op = nullptr) {
  int count = 0;
  for (auto const& n : p.nodes) count += n.kind == node_kind::call && (op == nullptr || n.op == op) ? 1 : 0;
  return count;
}
constexpr int loops(program const& p) {
  int count = 0;
  for (auto const& n : p.nodes) count += n.kind == node_kind::loop ? 1 : 0;
  return count;
}

/// How often calls to an op run, over all iterations of their loops, including a shorter last segment.
constexpr std::int64_t runs(program const& p, op_info const* op) {
  auto const count = [&](auto const& self, int begin, int end, std::int64_t segment) -> std::int64_t {
    std::int64_t total = 0;
    for (int i = begin; i < end; ++i) {
      auto const& n = p.nodes[i];
      if (n.kind == node_kind::call && n.op == op) ++total;
      if (n.kind != node_kind::loop) continue;
      auto const& a = p.axes[n.axis];
      int const close = p.end_of(i);
      auto extent = a.extent;
      bool const inner = a.original >= 0 && a.factor == 1;
      if (inner && p.axes[a.original].extent - segment * a.extent < extent)
        extent = p.axes[a.original].extent - segment * a.extent;
      bool const outer = a.original >= 0 && !inner;
      for (std::int64_t iteration = 0; iteration < extent; ++iteration)
        total += self(self, i + 1, close, outer ? iteration : segment);
      i = close;
    }
    return total;
  };
  return count(count, 0, p.nodes.size(), 0);
}

/// The value that a parameter's name belongs to.
constexpr int named(program const& p, std::string_view name) {
  for (int v = 0; v < p.values.size(); ++v)
    if (is_parameter(p.values[v].role) && p.text(p.values[v].name) == name) return v;
  return -1;
}
constexpr int gradient_of(program const& p, std::string_view name) {
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient && p.values[v].belongs_to == named(p, name)) return v;
  return -1;
}

/// Whether two programs are the same, node by node.
constexpr bool same(program const& a, program const& b) {
  if (a.nodes.size() != b.nodes.size() || a.values.size() != b.values.size()) return false;
  for (int i = 0; i < a.nodes.size(); ++i) {
    auto const &m = a.nodes[i], &n = b.nodes[i];
    if (m.kind != n.kind || m.op != n.op || !(m.inputs == n.inputs) || !(m.outputs == n.outputs)) return false;
    if (m.axis != n.axis || m.reversed != n.reversed) return false;
  }
  return true;
}

} // namespace constrain::test
