#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A line of a chart.
struct chart_line {
  std::string_view name;                           // name in the legend, already escaped for HTML; not copied
  char const* style;                               // CSS class
  std::vector<std::pair<double, double>> points{}; // (x, y), with ascending x
};

/// A vertical line in a chart.
struct chart_mark {
  double x;          // position on the x axis
  char const* style; // CSS class
};

/// A line chart as an SVG element with a viewBox of 640 x 240: a title, ticks, marks and, for several lines, a legend.
/// `title`: already escaped for HTML. Points whose x or y is not finite, and marks outside the range of x, are left
/// out. Points that are too close in x to tell apart are averaged. Values of y that differ by at most 1e-9 times their
/// largest magnitude are drawn as a constant. Values of x and y are clamped to [-1e300, 1e300]. Returns an empty string
/// if no point remains.
[[gnu::cold]] std::string line_chart(std::string_view title, std::vector<chart_line> lines,
                                     std::vector<chart_mark> const& marks = {});

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/record/chart.ipp"
#endif
