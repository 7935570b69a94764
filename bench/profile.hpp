#pragma once

#include "work.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace constrain::bench {

/// The time of all calls of one kind in a step.
struct profile_row {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0, bytes = 0;
  double least_seconds = 0; // at the machine's limits

  double share() const { return seconds > 0 ? least_seconds / seconds : 0; }
};

/// Hooks that measure the time of every call.
class profile {
public:
  profile(measured_plan const& plan, limits const& most) : plan_(plan), most_(most) {}

  void before(int, step const&, bound_operand const*, loop_state const&) { began_ = std::chrono::steady_clock::now(); }
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    auto& row = rows_[index];
    auto const w = work_of(plan_, s, bound, constrain::detail::adds_now(plan_, s, loops));
    ++row.calls;
    row.seconds += seconds;
    row.flops += w.flops;
    row.bytes += w.bytes;
    row.least_seconds += w.seconds_at(most_);
  }

  /// By kind, the longest first.
  std::vector<profile_row> rows() const {
    std::map<std::string, profile_row> kinds;
    for (auto const& [index, row] : rows_) {
      auto& kind = kinds[name_of_kind(plan_, plan_.steps[index])];
      kind.calls += row.calls;
      kind.seconds += row.seconds;
      kind.flops += row.flops;
      kind.bytes += row.bytes;
      kind.least_seconds += row.least_seconds;
    }
    std::vector<profile_row> result;
    for (auto& [name, row] : kinds) result.push_back(row), result.back().name = name;
    return result;
  }

private:
  measured_plan plan_;
  limits const& most_;
  std::map<int, profile_row> rows_; // by step of the plan
  std::chrono::steady_clock::time_point began_;
};

/// The median time of each kind over several profiles of the same plan, the longest first.
inline std::vector<profile_row> median_of(std::vector<std::vector<profile_row>> const& profiles) {
  auto result = profiles.front();
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::vector<double> seconds;
    for (auto const& one : profiles) seconds.push_back(one[i].seconds);
    result[i].seconds = median(seconds);
  }
  std::sort(result.begin(), result.end(), [](auto const& a, auto const& b) { return a.seconds > b.seconds; });
  return result;
}

inline void print(std::vector<profile_row> const& rows, std::FILE* out) {
  double total = 0, least = 0;
  for (auto const& row : rows) total += row.seconds, least += row.least_seconds;
  std::fprintf(out, "  %-40s %6s %9s %6s %9s %8s %6s %9s\n", "op", "calls", "ms", "%", "GFLOP/s", "GB/s", "share",
               "ms lost");
  for (auto const& row : rows)
    std::fprintf(out, "  %-40s %6lld %9.2f %6.1f %9.1f %8.1f %6.2f %9.2f\n", row.name.c_str(),
                 static_cast<long long>(row.calls), 1e3 * row.seconds, 100 * row.seconds / total,
                 row.flops / row.seconds * 1e-9, row.bytes / row.seconds * 1e-9, row.share(),
                 1e3 * (row.seconds - row.least_seconds));
  std::fprintf(out, "  %-40s %6s %9.2f %6s %9s %8s %6.2f %9.2f\n", "all", "", 1e3 * total, "", "", "", least / total,
               1e3 * (total - least));
}

} // namespace constrain::bench
