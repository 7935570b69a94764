#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/pass/cost.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A text table of the estimated time that each op takes in one run of a program: its calls, its milliseconds, its
/// share of the program's time, and the share of its own time that its compute-bound calls take. The ops that take
/// longest come first, and the last line, "all", has the totals. `tf32`: whether fp32 GEMMs use TF32. Empty if a rate
/// that the estimate needs is unknown or out of range (`estimated_seconds`).
[[gnu::noinline, gnu::cold]] inline std::string time_table(program const& p, device_rates const& rates, bool tf32) {
  struct op_time {
    std::string_view name;
    double calls = 0, seconds = 0, compute_bound_seconds = 0;
  };
  if (!has_rates(p, rates, tf32)) return {};
  fixed_vector<op_time, program::maximum_nodes> ops;
  op_time total{.name = "all"};
  for_each_time(p, rates, tf32, [&](int i, double runs, double seconds, bool is_compute_bound) {
    int k = 0;
    while (k < ops.size() && ops[k].name != p.nodes[i].op->name) ++k;
    if (k == ops.size()) ops.push_back({.name = p.nodes[i].op->name});
    for (auto* row : {&ops[k], &total}) {
      row->calls += runs;
      row->seconds += seconds;
      row->compute_bound_seconds += is_compute_bound ? seconds : 0;
    }
  });
  std::vector<int> order;
  for (int i = 0; i < ops.size(); ++i) order.push_back(i);
  heap_sort(order, [&](int a, int b) {
    return ops[a].seconds > ops[b].seconds || (ops[a].seconds == ops[b].seconds && a < b);
  });
  order.push_back(ops.size());
  ops.push_back(total);
  std::string text;
  for (auto const i : order)
    text += formatted("  %-34s %6.0f %-5s %10.3f ms %5.1f %%   %3.0f %% compute-bound\n",
                      std::string(ops[i].name).c_str(), ops[i].calls, ops[i].calls == 1 ? "call" : "calls",
                      ops[i].seconds * 1e3, total.seconds > 0 ? 100 * ops[i].seconds / total.seconds : 0,
                      ops[i].seconds > 0 ? 100 * ops[i].compute_bound_seconds / ops[i].seconds : 0);
  return text;
}

} // namespace constrain::detail
