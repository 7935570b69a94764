#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/program/print.hpp"
#include "constrain/train/entries.hpp"
#include "constrain/train/memory_table.hpp"
#include "constrain/train/tensor_core_dimensions.hpp"
#include "constrain/train/time_table.hpp"

#include <cstdio>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether the step program applies the optimizer's weight decay to the parameter called `parameter`. Ignores the
/// factors of optimizer::by_role, which are hyperparameters.
[[gnu::noinline, gnu::cold]] inline bool is_decayed(program const& step, std::string_view parameter) {
  for (auto const& n : step.nodes) {
    if (n.kind != node_kind::call || !op::is_update(*n.op)) continue;
    auto const& updated = step.values[n.outputs[0].value]; // the parameter, or the fp32 copy of a 16-bit parameter
    auto const& info = updated.belongs_to >= 0 ? step.values[updated.belongs_to] : updated;
    if (step.text(info.name) == parameter) return unpack<op::update_options>(n.attributes).decays;
  }
  // A parameter without an element-wise update, such as a matrix that Muon updates: `update_rule::decays` has set this
  // flag.
  for (auto const& info : step.values)
    if (is_parameter(info.role) && step.text(info.name) == parameter) return info.decays;
  return false;
}

/// The distinct dtypes of the optimizer states, in the order of the states, such as "f32, u8"; "none" for an optimizer
/// without states.
[[gnu::noinline, gnu::cold]] inline std::string state_types(parameter_list const& list) {
  std::string text;
  auto const is_first = [&](int state) {
    for (int i = 0; i < state; ++i)
      if (list.states[i].type == list.states[state].type) return false;
    return true;
  };
  for (int i = 0; i < list.states_size; ++i)
    if (is_first(i)) text.append(text.empty() ? "" : ", ").append(name_of(list.states[i].type));
  return text.empty() ? "none" : text;
}

} // namespace detail

/// A trainer's plan as text tables: policies, batch of one rank, dtypes, parameters (role, shape, size and whether
/// weight decay applies by default; the factors of optimizer::by_role, which are set at run time, can change this),
/// memory by part, arena bytes of each entry program (up to the end of its buffers), work of a step, and the number of
/// nodes of the step program after each pass. With device::cuda, the text also has an estimate of the time of a step by
/// op, if `rates_of` has the rates, and lists any GEMM dimensions that slow tensor cores down. With `programs`, the
/// text also has the step program after each pass.
template <class trainer> std::string explanation(bool programs = false) {
  using entries = typename trainer::entries;
  using detail::formatted;
  std::string text = concat({"policies    ", printable(trainer::policy_set::name()), "\n"});
  text += concat({"batch       ", counted(trainer::micro_batches, "micro-batch"), " x ",
                  counted(trainer::task::sequences, "sequence"), " x ", counted(trainer::task::tokens, "token"), " = ",
                  counted(trainer::batch_tokens, "token"), " a step\n"});
  char const* const master = name_of(entries::master);
  char const* const compute = name_of(entries::compute);
  char const* const sums = name_of(accumulator_of(entries::compute));
  auto const state = detail::state_types(entries::parameters.view());
  auto const stored = trainer::policy_set::precision::value.masters
                          ? concat({"master ", master})
                          : concat({"matrices ", compute, " without masters, biases and norms ", master});
  text += formatted("dtypes      %s, compute and activations %s, sums and statistics %s, gradients %s, optimizer "
                    "state %s, loss f64\n",
                    stored.c_str(), compute, sums, master, state.c_str());
  text += "\nparameters\n";
  for (int i = 0; i < entries::parameters.size; ++i) {
    auto const& info = entries::parameters.parameters[i];
    auto shape = detail::shape_text(info.shape);
    if (info.stacked) shape = concat({info.iterations, " x ", shape});
    text += formatted("  %-34s %-10s %-18s %14s%s\n", printable(std::string(entries::parameters.name(i))).c_str(),
                      name_of(info.role), shape.c_str(), detail::grouped(info.elements()).c_str(),
                      detail::is_decayed(entries::step_program::final, entries::parameters.name(i)) ? "  decays" : "");
  }
  text += formatted("  %-34s %-10s %-18s %14s\n", "all", "", "", detail::grouped(trainer::parameter_count).c_str());
  text += concat({"\nmemory\n", detail::memory_table(trainer::memory)});
  text += "\narena bytes of each entry\n";
  auto const add_entry = [&](char const* name, std::int64_t b) {
    text += formatted("  %-18s %14s bytes\n", name, detail::grouped(b).c_str());
  };
  add_entry("step", entries::step::where.end), add_entry("evaluate", entries::evaluate::where.end);
  add_entry("predict", entries::predict::where.end), add_entry("generate", entries::generate::where.end);
  if (entries::keeps_copies && entries::casts::where.end > entries::persistent_end)
    add_entry("casts", entries::casts::where.end);
  text += formatted("\nwork of a step\n  %.3g FLOPs, %.3g bytes moved, %s, %s\n", trainer::flops, trainer::bytes_moved,
                    counted(trainer::kernel_launches, "kernel launch").c_str(),
                    counted(trainer::collectives, "collective").c_str());
  if constexpr (trainer::policy_set::device::value.is_cuda) {
    auto const& step = entries::step_program::final;
    constexpr bool tf32 = trainer::policy_set::precision::value.tf32;
    if (auto const times = detail::time_table(step, rates_of<typename trainer::policy_set::target>, tf32);
        !times.empty())
      text += concat({"\nestimated time of a step\n", times});
    if (auto const dimensions = detail::tensor_core_dimensions(step, tf32); !dimensions.empty())
      text += concat({"\ndimensions that slow tensor cores down\n", dimensions});
  }
  text += "\npasses of the step\n";
  entries::step_program::for_each([&](char const* name, program const& p) {
    text += formatted("  %-18s %4d nodes\n", name, p.nodes.size());
    if (programs) text.append("\n").append(printable(print(p), true)).append("\n");
  });
  return text;
}

/// Prints `explanation<trainer>()` to `out`.
template <class trainer> void explain(std::FILE* out = stdout) { std::fputs(explanation<trainer>().c_str(), out); }

} // namespace constrain
