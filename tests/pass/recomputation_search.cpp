#include "recomputation_programs.hpp"

#include <constrain/pass/recomputation_search.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace constrain;
using namespace constrain::test;

namespace {

/// Bytes of the plan of a program before fusion.
std::int64_t bytes_of(program const& p) {
  auto const fused = constrain::fuse(p, {.fuses = true});
  return plan_memory(in_place(slice_views(coalesce(fused)))).end;
}

/// A choice's plan's bytes, and the cost of its recomputation.
struct planned_choice {
  std::int64_t bytes;
  double cost;
};

/// The result of a search, and the number of plans that it made.
struct found {
  planned_choice result;
  int plans;
};
found search(program const& p, std::int64_t limit) {
  recomputation_estimate const estimate(p);
  recomputation_search s;
  int plans = 0;
  for (; !s.is_done; ++plans) s = s.after(estimate, bytes_of(rematerialize(p, estimate.nodes(s.candidate))), limit);
  auto const choice = s.choice();
  return {{bytes_of(rematerialize(p, estimate.nodes(choice))), estimate.of(choice).cost}, plans};
}

/// Compares searches with all choices, for limits from the smallest plan to that of dropping nothing.
void check_limits(program const& p) {
  recomputation_estimate const estimate(p);
  std::vector<planned_choice> all;
  for (auto const choice : all_choices(estimate))
    all.push_back({bytes_of(rematerialize(p, estimate.nodes(choice))), estimate.of(choice).cost});
  auto const nothing = bytes_of(p);
  std::vector<std::int64_t> limits;
  for (auto const& c : all)
    if (c.bytes <= nothing) limits.push_back(c.bytes);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  REQUIRE(limits.size() > 10);
  for (auto const limit : limits) {
    CAPTURE(limit);
    double cheapest = -1;
    for (auto const& c : all)
      if (c.bytes <= limit && (cheapest < 0 || c.cost < cheapest)) cheapest = c.cost;
    auto const [result, plans] = search(p, limit);
    CHECK(result.bytes <= limit);
    CHECK(result.cost <= 1.02 * cheapest);
    CHECK(plans <= recomputation_search::maximum_plans);
  }
}

constexpr auto gated_program = [] { return updated(built<task_of<gated{}>>()); };
constexpr recomputation_estimate gated_estimate(gated_program());

/// The search of a limit of one byte after `plans` plans, all but the first refused. Each is a constant expression, in
/// which overflow is an error, and a separate one as in pipeline.hpp, because compilers limit the work in one.
template <int plans>
constexpr recomputation_search refused_after =
    refused_after<plans - 1>.after(gated_estimate, plans == 1 ? 1 << 20 : recomputation_search::refused, 1);
template <> constexpr recomputation_search refused_after<0>{};

} // namespace

TEST_CASE("recomputation_search: a limit that nothing fits gives the smallest plan that was found") {
  auto const p = updated(built<mixed_task>());
  recomputation_estimate const estimate(p);
  auto least = bytes_of(p);
  for (auto const choice : all_choices(estimate))
    least = std::min(least, bytes_of(rematerialize(p, estimate.nodes(choice))));
  CHECK(search(p, 1).result.bytes == least);
  CHECK(search(p, bytes_of(p)).plans == 1);
  CHECK(search(p, bytes_of(p)).result.cost == 0);
}

TEST_CASE("recomputation_search: as cheap as the cheapest of all choices that fit") {
  check_limits(updated(built<mixed_task>()));
  check_limits(updated(built<task_of<gated{}>>()));
  check_limits(updated(built<task_of<two_repeats{}>>()));
  check_limits(updated(built<attention_task<3>>()));
  check_limits(updated(built<mixed_task>(), 1, dtype::bf16));
  check_limits(updated(built<task_of<gated{}>>(), 3));
}

TEST_CASE("recomputation_search: as cheap even where the estimates of the first plans are wrong") {
  check_limits(updated(built<task_of<narrow_then_wide{}>>(), 3));
  check_limits(updated(built<task_of<narrow_repeat{}>>(), 3));
  check_limits(updated<optimizer::in_backward<optimizer::adamw>>(built<task_of<wide_then_narrow{}>>()));
}

TEST_CASE("recomputation_search: finds what fits even if dropping everything needs more bytes than dropping nothing") {
  auto const p = updated(built<task_of<flat{}>>());
  recomputation_estimate const estimate(p);
  CHECK(bytes_of(rematerialize(p, estimate.nodes(estimate.all()))) > bytes_of(p));
  check_limits(p);
  check_limits(updated<optimizer::in_backward<optimizer::adamw>>(built<task_of<flat{}>>()));
}

TEST_CASE("recomputation_search: refused plans are never chosen, and a refused first plan ends the search") {
  auto const p = updated(built<task_of<gated{}>>());
  recomputation_estimate const estimate(p);
  constexpr auto refused = recomputation_search::refused;
  CHECK(recomputation_search{}.after(estimate, refused, 1000).is_done);
  for (int fitting = 1; fitting < recomputation_search::maximum_plans; ++fitting) {
    CAPTURE(fitting);
    recomputation_search s;
    for (int plans = 0; !s.is_done; ++plans) {
      std::int64_t const bytes = plans == 0 ? 2000 : plans == fitting ? 1000 : refused;
      s = s.after(estimate, bytes, 1000);
      CHECK(s.made.size() == plans + 1);
    }
    CHECK(s.best == (s.made.size() > fitting ? fitting : -1));
    CHECK(s.made.size() <= recomputation_search::maximum_plans);
  }
}

TEST_CASE("recomputation_search: if most plans are refused and nothing fits in one byte, the search still ends") {
  static_assert(refused_after<recomputation_search::maximum_plans - 1>.is_done == false);
  static_assert(refused_after<recomputation_search::maximum_plans>.is_done);
  static_assert(refused_after<recomputation_search::maximum_plans>.best == -1);
}
