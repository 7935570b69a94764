#pragma once

#include "constrain/fit/record/chart.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/device/math.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The distance between ticks: 1, 2 or 5 times a power of ten, for about five ticks in a range of length `range`, which
/// must be above 0.
[[gnu::cold]] CONSTRAIN_INLINE double tick_spacing(double range) {
  double const power = libm::pow(10.0, libm::floor(libm::log10(range / 5)));
  for (double const digit : {1.0, 2.0, 5.0})
    if (range <= 5 * digit * power * 1.5) return digit * power;
  return 10 * power;
}

/// The multiples of `tick_spacing` in [low, high], at most ten. Each is computed from its index, so that rounding
/// errors do not add up.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<double> ticks(double low, double high) {
  double const spacing = tick_spacing(high - low), first = libm::ceil(low / spacing);
  std::vector<double> result;
  for (int i = 0; i < 10 && (first + i) * spacing <= high; ++i) result.push_back((first + i) * spacing);
  return result;
}

/// The text of the tick `x`, with at most four significant digits. If ticks `spacing` apart need more digits to differ,
/// the text has as many as they need, and all digits before the point, but at most 15 digits. If x is only a rounding
/// error beside `spacing`, the text is "0".
[[gnu::cold]] CONSTRAIN_INLINE std::string tick_label(double x, double spacing) {
  if (std::abs(x) < 1e-9 * spacing) return "0";
  double const exponent = libm::floor(libm::log10(std::abs(x)));
  double digits = exponent - libm::floor(libm::log10(spacing)) + 1;
  if (digits > 4) digits = std::max(digits, exponent + 1);
  char text[32];
  auto* const begin = static_cast<char*>(text);
  auto const precision = static_cast<int>(std::clamp(digits, 4.0, 15.0));
  return {begin, std::to_chars(begin, begin + sizeof text, x, std::chars_format::general, precision).ptr};
}

/// Splits [low, high), a range of x with low < high, into `columns` columns and returns the mean point of each
/// non-empty column. The points must be in ascending order of x and within [low, high]; `high` counts as one more
/// column.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::pair<double, double>> thinned(
    std::vector<std::pair<double, double>> const& points, double low, double high, int columns) {
  std::vector<std::pair<double, double>> result;
  for (std::size_t i = 0; i < points.size();) {
    auto const column = [&](double x) { return static_cast<int>((x - low) / (high - low) * columns); };
    auto const c = column(points[i].first);
    double x = 0, y = 0, n = 0;
    for (; i < points.size() && column(points[i].first) == c; ++i) x += points[i].first, y += points[i].second, ++n;
    result.push_back({x / n, y / n});
  }
  return result;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string line_chart(std::string_view title, std::vector<chart_line> lines,
                                                      std::vector<chart_mark> const& marks) {
  constexpr double left = 64, right = 624, top = 28, bottom = 204;
  double low_x = 0, high_x = 0, low_y = 0, high_y = 0;
  bool has_points = false;
  for (auto& line : lines) {
    std::erase_if(line.points, [](auto const& p) { return !math::finite(p.first) || !math::finite(p.second); });
    for (auto& [x, y] : line.points) {
      // Clamped, so that sums and differences of values remain finite.
      x = std::clamp(x, -1e300, 1e300), y = std::clamp(y, -1e300, 1e300);
      low_x = has_points ? std::min(low_x, x) : x, high_x = has_points ? std::max(high_x, x) : x;
      low_y = has_points ? std::min(low_y, y) : y, high_y = has_points ? std::max(high_y, y) : y;
      has_points = true;
    }
  }
  if (!has_points) return {};
  if (high_x <= low_x) high_x = low_x + std::max(1.0, std::abs(low_x) * 1e-9);
  // Values that differ only by rounding are drawn as a constant.
  if (high_y - low_y <= 1e-9 * std::max(std::abs(low_y), std::abs(high_y)))
    high_y = low_y + std::max(std::abs(low_y), 1e-9), low_y -= high_y - low_y;
  auto const x_position = [&](double x) { return left + (x - low_x) / (high_x - low_x) * (right - left); };
  auto const y_position = [&](double y) { return bottom - (y - low_y) / (high_y - low_y) * (bottom - top); };
  std::string svg = concat({"<svg viewBox=\"0 0 640 240\" role=\"img\"><title>", title, "</title>\n"});
  auto const add = [&](std::initializer_list<text_part> parts) { svg += concat(parts); };
  auto const at = [](double position) { return detail::fixed_text(position, 1); };
  double const x_spacing = detail::tick_spacing(high_x - low_x), y_spacing = detail::tick_spacing(high_y - low_y);
  svg += concat({"<text class=\"title\" x=\"64\" y=\"16\">", title, "</text>\n"});
  for (double const y : detail::ticks(low_y, high_y))
    add({"<path class=\"grid\" d=\"M", at(left), " ", at(y_position(y)), "H", at(right),
         "\"/><text class=\"tick y\" x=\"", at(left - 6), "\" y=\"", at(y_position(y) + 4), "\">",
         detail::tick_label(y, y_spacing), "</text>\n"});
  for (double const x : detail::ticks(low_x, high_x))
    add({"<text class=\"tick x\" x=\"", at(x_position(x)), "\" y=\"", at(bottom + 18), "\">",
         detail::tick_label(x, x_spacing), "</text>\n"});
  std::string last_mark;
  for (auto const& mark : marks) {
    if (!(mark.x >= low_x && mark.x <= high_x)) continue;
    auto path = concat(
        {"<path class=\"", mark.style, "\" d=\"M", at(x_position(mark.x)), " ", at(top), "V", at(bottom), "\"/>\n"});
    if (path != last_mark) svg += path; // a long run may save thousands of times
    last_mark = std::move(path);
  }
  double legend_x = 200;
  for (auto const& line : lines) {
    if (line.points.empty()) continue;
    // One column per unit of the viewBox: right - left = 560.
    auto const points = detail::thinned(line.points, low_x, high_x, 560);
    add({"<path class=\"line ", line.style, points.size() == 1 ? " point" : "", "\" d=\""});
    auto const* command = "M";
    for (auto const& [x, y] : points) add({std::exchange(command, "L"), at(x_position(x)), " ", at(y_position(y))});
    if (points.size() == 1) svg += "h0"; // browsers draw nothing for a path without a segment
    svg += "\"/>\n";
    if (lines.size() == 1) continue; // a single line needs no legend
    add({"<text class=\"legend ", line.style, "\" x=\"", at(legend_x), "\" y=\"16\">", line.name, "</text>\n"});
    // Estimated width of the text: 8 units per byte of the name.
    legend_x += 8.0 * static_cast<double>(line.name.size()) + 16;
  }
  add({"<path class=\"axis\" d=\"M", at(left), " ", at(top), "V", at(bottom), "H", at(right), "\"/>\n"});
  return concat({svg, "</svg>\n"});
}

} // namespace constrain
