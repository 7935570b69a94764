#include "policy/small_gpt.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace ct = constrain;
using ct::test::small_gpt;

namespace {

constexpr auto const& step = ct::trainer<small_gpt>::entries::step_program::final;
constexpr ct::device_rates rates{1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e-6};

/// The number before `unit` in the line of an op.
double number_before(std::string const& text, std::string const& op, std::string const& unit) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  " + op + " ") != 0) continue;
    auto const end = line.find(" " + unit);
    auto const begin = line.rfind(' ', end - 1);
    return std::stod(line.substr(begin, end - begin));
  }
  return -1;
}

} // namespace

TEST_CASE("time_table: the times of the ops add up to the estimate") {
  auto const text = ct::detail::time_table(step, rates, false);
  double const all = ct::estimated_seconds(step, rates) * 1e3;
  CHECK(number_before(text, "all", "ms") == doctest::Approx(all).epsilon(1e-3));
  CHECK(number_before(text, "all", "calls") == static_cast<double>(ct::work_of(step).kernel_launches));
  double sum = 0, last = 1e300;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto const name = line.substr(2, line.find(' ', 2) - 2);
    if (name == "all") continue;
    auto const time = number_before(text, name, "ms");
    CHECK(time <= last); // the longest first
    sum += last = time;
  }
  CHECK(sum == doctest::Approx(all).epsilon(1e-2));
  CHECK(number_before(text, "linear", "calls") > 1);
}

TEST_CASE("time_table: arithmetic or memory is the limit") {
  auto few_bytes = rates, few_operations = rates;
  few_bytes.bytes = 1e20;
  few_operations.gemm_32 = few_operations.operations = 1e20;
  CHECK(number_before(ct::detail::time_table(step, few_bytes, false), "linear", "% compute-bound") == 100);
  CHECK(number_before(ct::detail::time_table(step, few_operations, false), "linear", "% compute-bound") == 0);
}

TEST_CASE("time_table: flash attention in 16 bits has a rate of its own") {
  constexpr auto const& narrow = ct::trainer<small_gpt, ct::precision::bf16>::entries::step_program::final;
  auto fast = rates;
  fast.bytes = 1e20, fast.attention = 1e12;
  auto const slow_text = ct::detail::time_table(narrow, rates, false);
  CHECK(number_before(ct::detail::time_table(narrow, fast, false), "flash_attention_gradient", "ms") <
        number_before(slow_text, "flash_attention_gradient", "ms") / 2);
  CHECK(ct::estimated_seconds(step, fast) > 0);
}

TEST_CASE("time_table: empty without rates") { CHECK(ct::detail::time_table(step, {}, false).empty()); }
