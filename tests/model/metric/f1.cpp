#include <constrain/model/metric/f1.hpp>
#include <constrain/model/metric/metrics.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

/// The counts of predictions and labels.
std::vector<double> count(std::vector<int> const& predicted, std::vector<int> const& labels, std::size_t classes) {
  std::vector<double> counts(3 * classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    auto const p = static_cast<std::size_t>(predicted[i]), l = static_cast<std::size_t>(labels[i]);
    counts[l] += p == l ? 1 : 0, ++counts[classes + p], ++counts[2 * classes + l];
  }
  return counts;
}

double macro(std::vector<double> const& counts) { return ct::macro_f1::of(ct::class_counts(counts)); }
double binary(std::vector<double> const& counts) { return ct::binary_f1::of(ct::class_counts(counts)); }

struct rows {
  static constexpr char const* name = "rows";
  static double of(ct::class_counts const& c) {
    double all = 0;
    for (std::int64_t i = 0; i < c.classes(); ++i) all += c.labelled(i);
    return all;
  }
};
struct no_name {
  static double of(ct::class_counts const&) { return 0; }
};

static_assert(ct::is_metric<rows> && ct::is_metric<ct::macro_f1> && ct::is_metric<ct::binary_f1>);
static_assert(!ct::is_metric<no_name> && !ct::is_metric<int>);

} // namespace

// The expected values are those of the definitions, in fractions. scikit-learn 1.x (f1_score) gives the same.
TEST_CASE("F1 of three classes") {
  auto const counts = count({0, 1, 2, 0, 1, 2, 0, 0}, {0, 2, 1, 0, 0, 1, 1, 0}, 3);
  // Class 0: 3 of 4 predicted and of 4 labels; class 1: 0 of 2 and 3; class 2: 0 of 2 and 1.
  CHECK(macro(counts) == doctest::Approx((6.0 / 8 + 0 + 0) / 3));
  CHECK(macro(count({0, 1, 2}, {0, 1, 2}, 3)) == 1);
  CHECK(macro(count({1, 2, 0}, {0, 1, 2}, 3)) == 0);
}

TEST_CASE("classes that are neither predicted nor a label do not count") {
  CHECK(macro(count({0, 1, 1}, {0, 1, 0}, 9)) == doctest::Approx((2.0 / 3 + 2.0 / 3) / 2));
  CHECK(macro(count({0, 1, 1}, {0, 1, 0}, 9)) == macro(count({0, 1, 1}, {0, 1, 0}, 2)));
  CHECK(std::isnan(macro(count({}, {}, 3))));
}

TEST_CASE("F1 of two classes is that of class 1") {
  auto const counts = count({1, 1, 0, 0, 1}, {1, 0, 1, 0, 1}, 2); // precision 2 / 3, recall 2 / 3
  CHECK(binary(counts) == doctest::Approx(2.0 / 3));
  CHECK(binary(count({1, 1, 1, 0}, {1, 0, 0, 0}, 2)) == doctest::Approx(2 * (1.0 / 3) / (1.0 / 3 + 1)));
  CHECK(binary(count({0, 0}, {0, 0}, 2)) == 0); // no positive at all
  CHECK(binary(count({0, 0}, {0, 1}, 2)) == 0);
}

TEST_CASE("an objective's metrics are listed in order, without those that do not apply") {
  using all = ct::metrics<ct::macro_f1, ct::binary_f1, rows>;
  auto const counts = count({1, 1, 0}, {1, 0, 0}, 2);
  auto const two = all::of(ct::class_counts(counts));
  REQUIRE(two.size() == 3);
  CHECK(std::string(two[0].name) == "macro_f1");
  CHECK(std::string(two[1].name) == "f1");
  CHECK(two[1].value == binary(counts));
  CHECK(two[2].value == 3);
  auto const more = count({1, 1, 0}, {1, 0, 0}, 3);
  auto const three = all::of(ct::class_counts(more));
  REQUIRE(three.size() == 2);
  CHECK(std::string(three[1].name) == "rows");
  CHECK(ct::metrics<>::of(ct::class_counts(more)).size() == 0);
}
