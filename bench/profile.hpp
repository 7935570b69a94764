#pragma once

#include "measure.hpp"
#include "work.hpp"

#include <constrain/io/json_writer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace constrain::bench {

/// The time and the work of several calls in a step, such as all calls of one kind.
struct profile_row {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0, bytes = 0;
  double least_seconds = 0; // at the machine's limits

  double share() const { return seconds > 0 ? least_seconds / seconds : 0; }
};

/// Collects the times of a plan's calls.
class call_times {
public:
  call_times(measured_plan const& plan, limits const& most) : plan_(plan), most_(most) {}

  /// Adds the time of one call of step `index`. `done`: the work of the call.
  void add(int index, work const& done, double seconds) {
    auto& row = rows_[index];
    ++row.calls;
    row.seconds += seconds;
    row.flops += done.flops;
    row.bytes += done.bytes;
    row.least_seconds += done.seconds_at(most_);
  }

  /// One row for each kind of call, sorted by name.
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

  /// One row for each step of the plan, in the plan's order. Each name starts with the step's index.
  std::vector<profile_row> rows_by_step() const {
    std::vector<profile_row> result;
    for (auto const& [index, row] : rows_) {
      result.push_back(row);
      result.back().name = std::to_string(index) + " " + name_of_call(plan_, plan_.steps[index]);
    }
    return result;
  }

private:
  measured_plan plan_;
  limits const& most_;
  std::map<int, profile_row> rows_; // by step of the plan
};

/// Hooks that measure the time of every call on the CPU.
class profile {
public:
  profile(measured_plan const& plan, limits const& most) : plan_(plan), times_(plan, most) {}

  void before(int, step const&, bound_operand const*, loop_state const&) { began_ = std::chrono::steady_clock::now(); }
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    times_.add(index, work_of(plan_, s, bound, constrain::detail::current_adds(plan_, s, loops)), seconds);
  }

  std::vector<profile_row> rows() const { return times_.rows(); }

private:
  measured_plan plan_;
  call_times times_;
  std::chrono::steady_clock::time_point began_;
};

/// The median time of each row over several profiles of the same plan, longest first.
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

/// The units of a printed table. FLOP/s are divided by `per_flops`. Times in ms have `digits` decimals.
struct table_units {
  char const* flops = "GFLOP/s";
  double per_flops = 1e9;
  int digits = 2;
};

inline void print(std::vector<profile_row> const& rows, std::FILE* out, table_units const& unit = {}) {
  double total = 0, least = 0;
  for (auto const& row : rows) total += row.seconds, least += row.least_seconds;
  std::fprintf(out, "  %-40s %6s %9s %6s %9s %8s %6s %9s\n", "op", "calls", "ms", "%", unit.flops, "GB/s", "share",
               "ms lost");
  for (auto const& row : rows)
    std::fprintf(out, "  %-40s %6lld %9.*f %6.1f %9.1f %8.1f %6.2f %9.*f\n", row.name.c_str(),
                 static_cast<long long>(row.calls), unit.digits, 1e3 * row.seconds, 100 * row.seconds / total,
                 row.flops / row.seconds / unit.per_flops, row.bytes / row.seconds * 1e-9, row.share(), unit.digits,
                 1e3 * (row.seconds - row.least_seconds));
  std::fprintf(out, "  %-40s %6s %9.*f %6s %9s %8s %6.2f %9.*f\n", "all", "", unit.digits, 1e3 * total, "", "", "",
               least / total, unit.digits, 1e3 * (total - least));
}

/// Writes the rows as a JSON array.
inline void write(io::json_writer& json, std::vector<profile_row> const& rows, char const* array = "ops") {
  json.array(array);
  for (auto const& row : rows) {
    json.object(io::json_layout::row).member("op", row.name).member("calls", row.calls).member("seconds", row.seconds);
    json.member("flops", row.flops).member("bytes", row.bytes).member("share_of_limit", row.share()).end();
  }
  json.end();
}

} // namespace constrain::bench
