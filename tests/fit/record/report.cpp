#include "../../decimal_comma.hpp"

#include <constrain/fit/record/report.hpp>
#include <constrain/fit/record/run_diagnosis.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ct = constrain;

namespace {

/// A run of 100 steps, evaluated every tenth, with these losses as functions of 0 to 1.
template <class function, class other>
std::vector<ct::step_record> run(function const& training, other const& validation) {
  std::vector<ct::step_record> steps;
  for (int i = 1; i <= 100; ++i) {
    ct::step_record r{.step = i,
                      .loss = training(i / 100.0),
                      .gradient_norm = 1,
                      .learning_rate = 1e-3,
                      .seconds = 0.5,
                      .tokens_per_second = 100,
                      .tokens = 64};
    if (i % 10 == 0) r.validation_loss = validation(i / 100.0);
    steps.push_back(r);
  }
  return steps;
}

double falls(double x) { return 4 - 2 * x; }
double settles(double x) { return 2 + 2 * std::exp(-20 * x); }

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

} // namespace

TEST_CASE("what the losses say") {
  using ct::run_condition;
  auto const improving = ct::diagnose_run(run(falls, falls));
  CHECK(improving.condition == run_condition::still_improving);
  CHECK(improving.step == 100);
  auto const over = ct::diagnose_run(run(falls, [](double x) { return 3 + (x - 0.4) * (x - 0.4); }));
  CHECK(over.condition == run_condition::overfitting);
  CHECK(over.step == 40);
  CHECK(over.text.starts_with("Overfitting since step 40: "));
  CHECK(ct::diagnose_run(run([](double) { return 4.0; }, [](double) { return 4.0; })).condition ==
        run_condition::underfit);
  auto const well = ct::diagnose_run(run(settles, settles));
  CHECK(well.condition == run_condition::well_fit);
  auto steps = run(settles, settles);
  steps.resize(35);
  CHECK(ct::diagnose_run(steps).condition == run_condition::too_early);
  CHECK(ct::diagnose_run(steps).text ==
        "Too early to say: a diagnosis needs at least four evaluations, but this run had 3. Evaluate more often, or "
        "train longer.");
  CHECK(ct::diagnose_run({}).condition == run_condition::too_early);
  steps[29].validation_loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(ct::diagnose_run(steps).condition == run_condition::not_finite);
  CHECK(ct::diagnose_run(steps).step == 30);
}

TEST_CASE("what is left of a tiny loss is noise") {
  using ct::run_condition;
  // From 4 to about nothing: a thousandth of that is 0.004.
  auto const to = [](double rest, double at_three_quarters) {
    return [=](double x) { return x <= 0.1 ? 4.0 : x <= 0.75 ? rest + at_three_quarters : rest; };
  };
  auto const of = [&](double rest, double fall) {
    return ct::diagnose_run(run(to(rest, fall), to(rest, fall))).condition;
  };
  CHECK(of(0.0005, 0.0005) == run_condition::well_fit); // by half, and still nothing
  CHECK(of(0.0005, 0.0039) == run_condition::well_fit);
  CHECK(of(0.0005, 0.0041) == run_condition::still_improving);
  CHECK(of(1.0, 0.0099) == run_condition::well_fit); // of larger ones, 1 %
  CHECK(of(1.0, 0.0102) == run_condition::still_improving);
  // Rises too.
  auto const after = [&](double rise) {
    return ct::diagnose_run(
               run(to(0.0005, 0), [=](double x) { return x <= 0.1    ? 4.0
                                                         : x <= 0.75 ? 0.0005
                                                                     : 0.0005 + rise; }))
        .condition;
  };
  CHECK(after(0.0039) == run_condition::well_fit);
  CHECK(after(0.0041) == run_condition::getting_worse); // the training loss is flat
  // Where it was solved from the start there is nothing to learn, but a flat loss above that is underfit.
  auto const flat = [](double loss) { return [=](double) { return loss; }; };
  CHECK(ct::diagnose_run(run(flat(0.0005), flat(0.0006))).condition == run_condition::well_fit);
  CHECK(ct::diagnose_run(run(flat(0.0099), flat(4))).condition == run_condition::well_fit);
  CHECK(ct::diagnose_run(run(flat(0.0101), flat(4))).condition == run_condition::underfit);
}

TEST_CASE("a run that falls apart is not well fit") {
  using ct::run_condition;
  auto const apart = [](double x) { return x < 0.5 ? 4 - 4 * x : 8 * x - 2; };
  auto const worse = ct::diagnose_run(run(apart, apart));
  CHECK(worse.condition == run_condition::getting_worse);
  CHECK(worse.step == 50);
  CHECK(worse.text.starts_with(
      "Getting worse since step 50: the validation loss rose from 2 to 6, and the training loss did not fall. "));
  // The lowest of long ago is no fall until the end.
  auto const dip = ct::diagnose_run(run(settles, [](double x) { return x < 0.45 ? 2.0 : x < 0.85 ? 2.03 : 2.005; }));
  CHECK(dip.condition == run_condition::well_fit);
  CHECK(dip.text == "Well fit: the validation loss ended at 2.005; its lowest was 2 at step 10.");
}

TEST_CASE("losses that are not finite are left out, unless the last ones are") {
  using ct::run_condition;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const holes = [&](double x) { return static_cast<int>(std::lround(100 * x)) % 7 == 0 ? nan : settles(x); };
  CHECK(ct::diagnose_run(run(holes, settles)).condition == run_condition::well_fit);
  auto const late = [&](double x) { return x < 0.12 ? nan : falls(x); };
  CHECK(ct::diagnose_run(run(late, falls)).condition == run_condition::still_improving);
  auto const lost = ct::diagnose_run(run([&](double x) { return x > 0.845 ? nan : settles(x); }, settles));
  CHECK(lost.condition == run_condition::not_finite);
  CHECK(lost.step == 85);
  CHECK(lost.text == "The training loss became non-finite at step 85: lower the learning rate or, without "
                     "in_backward, clip the gradient.");
  CHECK(ct::diagnose_run(run([&](double) { return nan; }, settles)).step == 1);
}

TEST_CASE("a chart has a line, ticks at round numbers, and no more points than columns") {
  ct::chart_line line{"loss", "a", {}};
  for (int i = 0; i < 100'000; ++i) line.points.emplace_back(i, 3.0 + i / 100'000.0);
  auto const svg = ct::line_chart("loss", {line});
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "L") >= 500);
  CHECK(count(svg, "L") <= 562);
  for (auto const* tick : {">3<", ">3.2<", ">3.8<", ">4e+04<"}) CHECK(svg.find(tick) != std::string::npos);
  CHECK(svg.find("legend") == std::string::npos); // of one line the title says all
}

TEST_CASE("coordinates and ticks of a chart have a decimal point in every locale") {
  auto const chart = [] { return ct::line_chart("loss", {{"loss", "a", {{0, 0.25}, {1, 0.75}}}}, {{1, "saved"}}); };
  auto const expected = chart();
  CHECK(expected.find("d=\"M64.0 204.0L") != std::string::npos);
  CHECK(expected.find(">0.3<") != std::string::npos);
  ct::test::decimal_comma const locale;
  CHECK(chart() == expected);
}

TEST_CASE("ticks of a chart that are close together have different texts") {
  auto const svg = ct::line_chart("loss", {{"loss", "a", {{100'001, 2.3011}, {100'040, 2.3016}}}});
  for (auto const* tick : {">100010<", ">100020<", ">2.3012<", ">2.3014<"}) {
    CAPTURE(std::string(tick));
    CHECK(count(svg, tick) == 1);
  }
}

TEST_CASE("ticks of tiny values are numbers, and 0 is 0") {
  auto const svg = ct::line_chart("learning rate", {{"rate", "a", {{1, -2e-13}, {2, 4e-13}}}});
  for (auto const* tick : {">0<", ">2e-13<", ">4e-13<"}) {
    CAPTURE(std::string(tick));
    CHECK(count(svg, tick) == 1);
  }
}

TEST_CASE("charts of little") {
  CHECK(ct::line_chart("none", {{"a", "a", {}}}).empty());
  CHECK(ct::line_chart("not finite", {{"a", "a", {{1, std::nan("")}}}}).empty());
  for (double const y : {0.0, 5.0, -1e-30, 1e300}) {
    auto const svg = ct::line_chart("one", {{"a", "a", {{7, y}}}});
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.find("<path class=\"line a point\" d=\"M") != std::string::npos);
    CHECK(svg.find("h0\"/>") != std::string::npos); // the point is drawn
    CHECK(svg.size() < 4000);
  }
}

TEST_CASE("a chart of steps as large as any number has finite coordinates") {
  for (double const x : {1e17, 1e300, -1e308, std::numeric_limits<double>::infinity()})
    for (bool const has_others : {false, true}) {
      ct::chart_line line{"a", "a", {{x, 1}}};
      if (has_others) line.points = {{-1, 0}, {x, 1}, {2, 2}};
      if (has_others) std::sort(line.points.begin(), line.points.end());
      auto const svg = ct::line_chart("metric", {line});
      CAPTURE(svg);
      CHECK(svg.empty() == (!has_others && x > 1e308));
      CHECK(count(svg, "nan") == 0);
      CHECK(count(svg, "inf") == 0);
    }
}

TEST_CASE("marks of a chart that would lie on one another are one") {
  std::vector<ct::chart_mark> marks;
  for (int i = 0; i < 100'000; ++i) marks.push_back({static_cast<double>(i), "saved"});
  auto const svg = ct::line_chart("loss", {{"loss", "a", {{0, 1}, {99'999, 2}}}}, marks);
  CHECK(count(svg, "class=\"saved\"") > 500);
  CHECK(count(svg, "class=\"saved\"") <= 5601); // 560 units of the view box, with one decimal
}

TEST_CASE("a chart of the largest numbers has finite coordinates") {
  std::pair<double, double> const values[] = {
      {-1e308, 1e308}, {1e308, 1.7e308}, {-1.7e308, -1.7e308}, {1.7e308, 0}, {-1e300, 1e300}};
  for (auto const& [first, second] : values) {
    ct::chart_line line{"a", "a", {}};
    for (int i = 0; i < 2000; ++i) line.points.emplace_back(i, i < 1000 ? first : second); // several in one column
    auto const svg = ct::line_chart("metric", {line});
    CAPTURE(svg);
    CHECK(count(svg, "nan") == 0);
    CHECK(count(svg, "inf") == 0);
    CHECK(count(svg, "tick y") > 2);
  }
}

TEST_CASE("values that differ only by rounding are drawn as a constant") {
  std::pair<double, double> const ranges[] = {
      {0.3, 0.1 + 0.2}, {0x1p60, 0x1p60 + 256}, {-0x1p60 - 256, -0x1p60}, {0, 5e-324}};
  for (auto const& [low, high] : ranges) {
    auto const svg = ct::line_chart("metric", {{"a", "a", {{1, low}, {2, high}}}});
    CHECK(count(svg, "tick y") <= 10);
    CHECK(count(svg, "tick x") <= 10);
    CHECK(svg.find("nan") == std::string::npos);
  }
  CHECK(count(ct::line_chart("metric", {{"a", "a", {{1, 0.3}, {2, 0.1 + 0.2}}}}), "tick y") > 2);
}

TEST_CASE("the chart of tokens a second is of what the records say, valid labels beside it") {
  auto steps = run(falls, falls);
  for (auto& r : steps) r.tokens_per_second = 1000 + 10.0 * static_cast<double>(r.step);
  auto const chart = [&] {
    auto const page = ct::report({}, steps);
    auto const begin = page.find("<title>tokens per second</title>");
    return page.substr(begin, page.find("</svg>", begin) - begin);
  };
  CHECK(chart().find(">1800<") != std::string::npos);       // at 64 labels in half a second there is no such tick
  CHECK(chart().find("valid labels") == std::string::npos); // older records do not say
  for (auto& r : steps) r.labels_per_second = r.tokens_per_second / 2;
  CHECK(chart().find(">600<") != std::string::npos);
  CHECK(chart().find(">valid labels<") != std::string::npos);
}

TEST_CASE("one's own metrics have charts") {
  auto steps = run(falls, falls);
  for (auto& r : steps)
    if (r.step % 2 == 0) r.metrics = {{"bits <i>", r.loss / 0.693}, {"none", std::nan("")}};
  auto const page = ct::report({}, steps);
  CHECK(count(page, "<svg") == 5);
  CHECK(page.find("<title>bits &lt;i&gt;</title>") != std::string::npos);
}

TEST_CASE("the accuracy of the validation set has a chart") {
  auto steps = run(falls, falls);
  steps[9].accuracy = 0.5, steps[19].accuracy = 0.75;
  auto const page = ct::report({}, steps);
  CHECK(count(page, "<svg") == 5);
  CHECK(count(page, "<title>validation accuracy</title>") == 1);
}

TEST_CASE("a report holds everything and loads nothing") {
  auto steps = run(falls, falls);
  steps[49].saved = true;
  steps[50].resumed = true;
  ct::memory_plan memory;
  memory.weights = ct::mebibytes(6), memory.gradients = ct::mebibytes(2), memory.peak = ct::mebibytes(8);
  auto const page = ct::report({"fp32 <b>", {{"seed", "5 & 6"}}, memory}, steps);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(count(page, "<svg") == 4);
  CHECK(count(page, "class=\"saved\"") == 4);
  CHECK(count(page, "class=\"resumed\"") == 4);
  CHECK(page.find("fp32 &lt;b&gt;") != std::string::npos);
  CHECK(page.find("<dt>seed</dt><dd>5 &amp; 6</dd>") != std::string::npos);
  CHECK(page.find("Still improving") != std::string::npos);
  CHECK(page.find("<td>gradients</td><td class=\"number\">2.0 MiB</td><td class=\"bar\"><i style=\"width: 25.0%\">") !=
        std::string::npos);
  CHECK(page.find("master weights") == std::string::npos); // of no bytes
  for (auto const* outside : {"http", "src=", "<script", "<link", "@import", "url("})
    CHECK(page.find(outside) == std::string::npos);
}
