#pragma once

#include "constrain/pass/rewrite.hpp"
#include "constrain/policy/accumulate.hpp"
#include "constrain/program/extents.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether `accumulate_over` gives a value a separate instance for every micro-batch: it is neither persistent nor
/// `per_run`, and it is either no accumulator or an accumulator that the program reads (`is_read`).
constexpr bool is_transient(value_info const& info, bool is_read) {
  return !is_persistent(info.role) && !info.per_run && (!info.accumulates || is_read);
}

/// Gradient accumulation: wraps the program in a loop over `accumulation.micro_batches` micro-batches. Accumulators
/// that the program does not read (such as the loss, and the gradients that a later pass creates) sum over the loop's
/// iterations. With one micro-batch, the program does not change. Refused: a value with more than `maximum_elements`
/// elements over all micro-batches, and loops that are already nested as deeply as a program allows
/// (`axis_list::capacity`).
constexpr program accumulate_over(program const& p, slot_of::accumulation const& accumulation) {
  auto const micro_batches = accumulation.micro_batches;
  if (micro_batches == 1 || !p.failure.ok()) return p;
  auto out = without_nodes(p);
  auto& program = out.program;
  program.micro_batches = program.add_axis({.name = program.names.add("", "micro_batch"), .extent = micro_batches});
  bool is_read[program::maximum_values]{};
  for (auto const& n : p.nodes)
    for (auto const& input : n.inputs) is_read[input.value] = true;
  for (int v = 0; v < program.values.size(); ++v) {
    auto& info = program.values[v];
    if (!is_transient(info, is_read[v])) continue;
    axis_list axes;
    axes.push_back(program.micro_batches);
    for (int axis : info.axes)
      if (!axes.push_back(axis))
        program.fail({why::program_too_large, info.line, 0, axis_list::capacity, axis_list::capacity + 1});
    info.axes = axes;
    if (auto const failure = check_extents(program, info); !failure.ok()) program.fail(failure);
  }
  out.open(program.micro_batches, false);
  rewrite_nodes(out, p, 0, p.nodes.size(), [&](builder&, node const& n, int) { program.add_node(n); });
  out.close();
  return program;
}

} // namespace constrain
