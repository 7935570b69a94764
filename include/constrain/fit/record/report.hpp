#pragma once

#include "constrain/fit/record/chart.hpp"
#include "constrain/fit/record/records.hpp"
#include "constrain/pass/cost.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Title, facts and memory plan of a report.
struct report_head {
  std::string title;                                      // heading of the page
  std::vector<std::pair<std::string, std::string>> facts; // (name, value), in the order of display
  memory_plan memory{};                                   // the trainer's memory plan
};

namespace detail {

/// Text escaped for HTML.
[[gnu::cold]] std::string html_text(std::string_view text);

inline constexpr char const* report_style = R"(
:root { color-scheme: light dark; --ink: #1d2430; --faint: #8a93a3; --grid: #e3e7ee; --page: #fff; }
:root { --a: #2563c9; --b: #c2410c; --c: #7a8aa6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --faint: #8a93a3; --grid: #2c333f; --page: #14181f; }
  :root { --a: #7aa7f7; --b: #f59e66; --c: #5b6880; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); }
body { max-width: 1360px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .reading { font-size: 1.1rem; border-left: 4px solid var(--a); padding-left: .8rem; }
dl { display: flex; flex-wrap: wrap; gap: .4rem 2rem; } dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1rem 2rem; }
svg { width: 100%; height: auto; } text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.title { font-weight: 600; }
.tick { fill: var(--faint); } .tick.y { text-anchor: end; } .tick.x { text-anchor: middle; }
.grid { stroke: var(--grid); } .axis { stroke: var(--faint); fill: none; } .line { fill: none; stroke-width: 1.5; }
.a { stroke: var(--a); } text.a { stroke: none; fill: var(--a); }
.b { stroke: var(--b); } text.b { stroke: none; fill: var(--b); }
.saved { stroke: var(--c); stroke-dasharray: 1 4; } .resumed { stroke: var(--b); stroke-dasharray: 5 3; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } td.number { text-align: right; }
td.bar { width: 40%; } td.bar i { display: block; height: .7rem; background: var(--a); }
.note { color: var(--faint); font-size: .9rem; }
)";

/// Table rows of a memory plan, one per non-empty part, with a bar relative to the peak.
[[gnu::cold]] std::string memory_rows(memory_plan const& m);

/// A chart for each user-defined metric, in the order in which they first appear.
[[gnu::cold]] std::string metric_charts(std::span<step_record const> steps, std::span<chart_mark const> marks);

} // namespace detail

/// A run's report as one self-contained HTML page: diagnosis, charts of losses, learning rate, gradient norm,
/// throughput and user-defined metrics, with marks where the run was saved (dotted) and resumed (dashed), and the
/// memory plan.
[[gnu::cold]] std::string report(report_head const& head, std::span<step_record const> steps);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/record/report.ipp"
#endif
