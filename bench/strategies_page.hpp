#pragma once

#include "claims.hpp"
#include "strategy_row.hpp"

#include <constrain/base/formatted.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace constrain::bench {

/// A self-contained HTML page: memory by component, speed against memory with the Pareto front, the loss after equally
/// many tokens, a table of all figures, and the claims of claims.hpp.
class strategies_page {
public:
  strategies_page(std::vector<strategy_row> const& rows, std::string subtitle)
      : rows_(rows), subtitle_(std::move(subtitle)) {}

  std::string text() const {
    return R"(<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Strategies side by side</title>
<style>
:root{color-scheme:light dark;--line:#8886}
:root{--c0:#3b6ea8;--c1:#7ba7d0;--c2:#d08c3b;--c3:#4d9960;--c4:#b0556b;--c5:#8a7fb5}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2.5rem}p{max-width:44rem}
svg{width:100%;height:auto}svg text{fill:currentColor;font-size:12px}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{padding:.25rem .5rem;border-bottom:1px solid var(--line);text-align:right}
td:first-child,th:first-child,.claims td,.claims th{text-align:left}
.legend span{display:inline-block;margin-right:1rem}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
</style>
<h1>Strategies side by side</h1>
<p>)" + escaped(subtitle_) +
           "</p>\n<h2>Memory by component, planned</h2>\n" + legend() + bars() +
           "<h2>Speed against memory</h2>\n<p>The line is the Pareto front: no strategy is both faster and smaller "
           "than a strategy on the line.</p>\n" +
           scatter() + "<h2>Loss after equal tokens</h2>\n" + losses() + "<h2>All figures</h2>\n" + table() +
           "<h2>What the guides say</h2>\n" + claims() + "</html>\n";
  }

private:
  struct part {
    char const* name;
    bytes memory_plan::*member;
  };
  static constexpr part parts[] = {
      {"weights", &memory_plan::weights},         {"master weights", &memory_plan::master_weights},
      {"gradients", &memory_plan::gradients},     {"optimizer state", &memory_plan::optimizer_state},
      {"activations", &memory_plan::activations}, {"workspace", &memory_plan::workspace}};

  template <class... values> static std::string formatted(char const* format, values... v) {
    return detail::formatted(format, v...);
  }
  static std::string escaped(std::string const& text) {
    std::string out;
    for (char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
  }

  static std::string legend() {
    std::string out = "<p class=\"legend\">";
    int k = 0;
    for (auto const& p : parts) out += formatted("<span><i style=\"background:var(--c%d)\"></i>%s</span>", k++, p.name);
    return out + "</p>\n";
  }

  /// A horizontal bar per strategy, stacked by component.
  std::string bars() const {
    double most = 0;
    for (auto const& r : rows_) most = std::max(most, r.memory.peak.mebibytes());
    std::string out = formatted("<svg viewBox=\"0 0 900 %zu\" role=\"img\" aria-label=\"memory by component\">\n",
                                rows_.size() * 26 + 4);
    double y = 2;
    for (auto const& r : rows_) {
      out += formatted("<text x=\"150\" y=\"%.0f\" text-anchor=\"end\">%s</text>", y + 15, escaped(r.key).c_str());
      double x = 160;
      int k = 0;
      double sum = 0;
      for (auto const& p : parts) sum += (r.memory.*p.member).mebibytes();
      // Parts may share bytes. All parts are drawn narrower by the same factor, so that a bar is as long as its peak.
      double const scale = sum > 0 ? std::max(0.0, sum - r.memory.shared.mebibytes()) / sum : 0;
      for (auto const& p : parts) {
        double const size = (r.memory.*p.member).mebibytes();
        double const width = 640 * scale * size / most;
        out += formatted("<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"20\" fill=\"var(--c%d)\"><title>%s: %s "
                         "%.1f MiB</title></rect>",
                         x, y, width, k++, escaped(r.key).c_str(), p.name, size);
        x += width;
      }
      out += formatted("<text x=\"%.1f\" y=\"%.0f\">%.1f MiB</text>\n", x + 6, y + 15, r.memory.peak.mebibytes());
      y += 26;
    }
    return out + "</svg>\n";
  }

  /// The Pareto front, smallest memory first: the strategies that no other strategy dominates in speed and memory.
  std::vector<strategy_row const*> front() const {
    std::vector<strategy_row const*> out;
    for (auto const& r : rows_) {
      bool const is_beaten = std::any_of(rows_.begin(), rows_.end(), [&](strategy_row const& other) {
        return other.speed() >= r.speed() && other.memory.peak <= r.memory.peak &&
               (other.speed() > r.speed() || other.memory.peak < r.memory.peak);
      });
      if (!is_beaten) out.push_back(&r);
    }
    std::sort(out.begin(), out.end(), [](auto const* a, auto const* b) { return a->memory.peak < b->memory.peak; });
    return out;
  }

  std::string scatter() const {
    double most_memory = 0, most_speed = 0;
    for (auto const& r : rows_) {
      most_memory = std::max(most_memory, r.memory.peak.mebibytes());
      most_speed = std::max(most_speed, r.speed());
    }
    auto const x = [&](strategy_row const& r) { return 60 + 720 * r.memory.peak.mebibytes() / most_memory; };
    auto const y = [&](strategy_row const& r) { return 380 - 350 * r.speed() / most_speed; };
    std::string out = "<svg viewBox=\"0 0 900 420\" role=\"img\" aria-label=\"speed against memory\">\n"
                      "<line x1=\"60\" y1=\"380\" x2=\"860\" y2=\"380\" stroke=\"currentColor\"/>"
                      "<line x1=\"60\" y1=\"20\" x2=\"60\" y2=\"380\" stroke=\"currentColor\"/>"
                      "<text x=\"860\" y=\"410\" text-anchor=\"end\">memory, MiB</text>"
                      "<text x=\"66\" y=\"14\">tokens per second</text>\n";
    for (int k = 1; k <= 4; ++k)
      out += formatted("<text x=\"%.0f\" y=\"396\" text-anchor=\"middle\">%.0f</text><text x=\"54\" y=\"%.0f\" "
                       "text-anchor=\"end\">%.0f</text>\n",
                       60 + 720 * k / 4.0, most_memory * k / 4, 384 - 350 * k / 4.0, most_speed * k / 4);
    out += "<polyline fill=\"none\" stroke=\"var(--c2)\" stroke-width=\"1.5\" points=\"";
    for (auto const* r : front()) out += formatted("%.1f,%.1f ", x(*r), y(*r));
    out += "\"/>\n";
    for (auto const& r : rows_)
      out += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"var(--c0)\"/><text x=\"%.1f\" y=\"%.1f\">%s"
                       "</text>\n",
                       x(r), y(r), x(r) + 7, y(r) + 4, escaped(r.key).c_str());
    return out + "</svg>\n";
  }

  std::string losses() const {
    double least = 1e300, most = 0;
    for (auto const& r : rows_) least = std::min(least, r.result.loss), most = std::max(most, r.result.loss);
    double const range = std::max(most - least, 1e-9);
    std::string out =
        formatted("<svg viewBox=\"0 0 900 %zu\" role=\"img\" aria-label=\"loss\">\n", rows_.size() * 22 + 4);
    double y = 2;
    for (auto const& r : rows_) {
      double const x = 170 + 600 * (r.result.loss - least) / range;
      out +=
          formatted("<text x=\"150\" y=\"%.0f\" text-anchor=\"end\">%s</text><line x1=\"160\" x2=\"%.1f\" y1=\"%.0f\" "
                    "y2=\"%.0f\" stroke=\"var(--line)\"/><circle cx=\"%.1f\" cy=\"%.0f\" r=\"4\" fill=\"var(--c4)\"/>"
                    "<text x=\"%.1f\" y=\"%.0f\">%.4f</text>\n",
                    y + 13, escaped(r.key).c_str(), x, y + 9, y + 9, x, y + 9, x + 8, y + 13, r.result.loss);
      y += 22;
    }
    return out + "</svg>\n";
  }

  std::string table() const {
    std::string out = "<table><tr><th>strategy<th>tokens/s<th>estimated<th>planned MiB<th>used MiB<th>loss</tr>\n";
    for (auto const& r : rows_)
      out += formatted("<tr><td>%s: %s<td>%.0f<td>%.0f<td>%.1f<td>%.1f<td>%.4f</tr>\n", escaped(r.key).c_str(),
                       escaped(r.name).c_str(), r.speed(), r.estimate, r.memory.peak.mebibytes(),
                       r.result.used_peak.mebibytes(), r.result.loss);
    auto const order = order_of(rows_);
    return out + formatted("</table>\n<p>Pairs of strategies whose speeds differ by more than 5 %%: %d. The cost model "
                           "orders %d of them as the measurement does.</p>\n",
                           order.pairs, order.right);
  }

  std::string claims() const {
    std::string out = "<table class=\"claims\"><tr><th>claim<th>the guides<th>here<th></tr>\n";
    for (auto const& c : judged_claims(rows_))
      out += formatted("<tr><td>%s<td>%s<td>%s<td>%s</tr>\n", escaped(c.text).c_str(), escaped(c.theirs).c_str(),
                       escaped(c.ours).c_str(), c.judgment.c_str());
    return out + "</table>\n";
  }

  std::vector<strategy_row> const& rows_;
  std::string subtitle_;
};

} // namespace constrain::bench
