#pragma once

#include "constrain/fit/record/report.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/fit/record/run_diagnosis.hpp"
#include "constrain/train/memory_table.hpp"

#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

inline constexpr char const* report_style = R"(
:root { color-scheme: light dark; --ink: #1d2430; --faint: #8a93a3; --grid: #e3e7ee; --page: #fff; }
:root { --a: #2563c9; --b: #c2410c; --c: #7a8aa6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --faint: #8a93a3; --grid: #2c333f; --page: #14181f; }
  :root { --a: #7aa7f7; --b: #f59e66; --c: #5b6880; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); }
body { max-width: 1360px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .diagnosis { font-size: 1.1rem; border-left: 4px solid var(--a); padding-left: .8rem; }
dl { display: flex; flex-wrap: wrap; gap: .4rem 2rem; } dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1rem 2rem; }
svg { width: 100%; height: auto; } text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.title { font-weight: 600; }
.tick { fill: var(--faint); } .tick.y { text-anchor: end; } .tick.x { text-anchor: middle; }
.grid { stroke: var(--grid); } .axis { stroke: var(--faint); fill: none; } .line { fill: none; stroke-width: 1.5; }
.point { stroke-width: 5; stroke-linecap: round; }
.a { stroke: var(--a); } text.a { stroke: none; fill: var(--a); }
.b { stroke: var(--b); } text.b { stroke: none; fill: var(--b); }
.saved { stroke: var(--c); stroke-dasharray: 1 4; } .resumed { stroke: var(--b); stroke-dasharray: 5 3; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } td.number { text-align: right; }
td.bar { width: 40%; } td.bar i { display: block; height: .7rem; background: var(--a); }
.note { color: var(--faint); font-size: .9rem; }
)";

/// Text escaped for an HTML element; control characters become '?'.
[[gnu::cold]] CONSTRAIN_INLINE std::string html_text(std::string_view text) {
  std::string out;
  for (char c : printable(std::string(text))) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return out;
}

/// Table rows of a memory plan: its non-empty parts, the bytes that they share and the peak, each with a bar relative
/// to the peak.
[[gnu::cold]] CONSTRAIN_INLINE std::string memory_rows(memory_plan const& m) {
  std::string rows;
  auto const row = [&](char const* name, bytes b) {
    if (b > bytes(0))
      rows += concat({"<tr><td>", name, "</td><td class=\"number\">", bytes_text(b),
                      "</td><td class=\"bar\"><i style=\"width: ",
                      fixed_text(100.0 * static_cast<double>(b.count()) / static_cast<double>(m.peak.count()), 1),
                      "%\"></i></td></tr>\n"});
  };
  for_each_part(m, row);
  return rows;
}

/// One chart per metric in the member `member` (validation_metrics, metrics or settings), in the order in which the
/// metrics first appear in `steps`. `constants`: whether to draw metrics that never change. `marks`: as in
/// `line_chart`.
[[gnu::cold]] CONSTRAIN_INLINE std::string metric_charts(std::span<step_record const> steps,
                                                         std::vector<metric> step_record::*member, bool constants,
                                                         std::vector<chart_mark> const& marks) {
  std::vector<std::pair<std::string, chart_line>> metrics;
  for (auto const& r : steps)
    for (auto const& m : r.*member) {
      std::size_t i = 0;
      while (i < metrics.size() && metrics[i].first != m.name) ++i;
      if (i == metrics.size()) metrics.push_back({m.name, {"", "a"}}); // a single line has no legend
      metrics[i].second.points.push_back({static_cast<double>(r.step), m.value});
    }
  std::string charts;
  for (auto const& [name, line] : metrics) {
    auto const first = line.points.front().second;
    bool changes = false;
    for (auto const& point : line.points) changes = changes || point.second != first;
    if (constants || changes) charts += line_chart(html_text(name), {line}, marks);
  }
  return charts;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string report(report_head const& head, std::span<step_record const> steps) {
  chart_line training{"training", "a"}, validation{"validation", "b"}, norm{"norm", "a"}, rate{"rate", "a"};
  chart_line tokens{"tokens", "a"}, labels{"valid labels", "b"}, accuracy{"accuracy", "a"};
  std::vector<chart_mark> marks;
  for (auto const& r : steps) {
    auto const x = static_cast<double>(r.step);
    training.points.push_back({x, r.loss}), norm.points.push_back({x, r.gradient_norm});
    rate.points.push_back({x, r.learning_rate}), tokens.points.push_back({x, r.tokens_per_second});
    if (r.labels_per_second > 0) labels.points.push_back({x, r.labels_per_second});
    if (r.validation_loss) validation.points.push_back({x, *r.validation_loss});
    if (r.accuracy) accuracy.points.push_back({x, *r.accuracy});
    if (r.saved) marks.push_back({x, "saved"});
    if (r.resumed) marks.push_back({x, "resumed"});
  }
  auto const title = detail::html_text(head.title);
  std::string page =
      concat({"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
              "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
              title, "</title>\n<style>", detail::report_style, "</style></head>\n<body>\n<h1>", title, "</h1>\n"});
  page += concat({"<p class=\"diagnosis\">", detail::html_text(diagnose_run(steps).text), "</p>\n<dl>\n"});
  for (auto const& [name, value] : head.facts)
    page += concat({"<div><dt>", detail::html_text(name), "</dt><dd>", detail::html_text(value), "</dd></div>\n"});
  page += "</dl>\n<div class=\"charts\">\n";
  page += concat({line_chart("loss", {training, validation}, marks), line_chart("learning rate", {rate}, marks)});
  page +=
      concat({line_chart("gradient norm", {norm}, marks), line_chart("tokens per second", {tokens, labels}, marks)});
  page += line_chart("validation accuracy", {accuracy}, marks);
  page += detail::metric_charts(steps, &step_record::validation_metrics, true, marks);
  page += detail::metric_charts(steps, &step_record::metrics, true, marks);
  page += detail::metric_charts(steps, &step_record::settings, false, marks);
  page +=
      concat({"</div>\n<p class=\"note\">x axis: step. Tokens per second: the mean since the run began or was resumed. "
              "Dotted: saved; dashed: resumed.</p>\n<h2>Memory plan</h2>\n<table>\n",
              detail::memory_rows(head.memory), "</table>\n</body></html>\n"});
  return page;
}

} // namespace constrain
