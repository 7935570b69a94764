#include "programs.hpp"

#include <constrain/pass/own_pass.hpp>
#include <constrain/pass/step_passes.hpp>
#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace constrain;
using namespace constrain::test;

namespace {

/// A slot and policies whose pass adds an axis called by its letter, so that the order can be seen.
template <char letter> struct marks_nothing;
template <char letter> struct marking {
  bool marks = false;
  friend constexpr bool operator==(marking const&, marking const&) = default;
  template <class...> using otherwise = marks_nothing<letter>;
  using rules = rule_list<>;
};
template <char letter> struct marks_nothing {
  using slot = marking<letter>;
  static constexpr slot value{};
};
template <char letter, pass_name follows> struct marks {
  using slot = marking<letter>;
  static constexpr slot value{.marks = true};
  static constexpr auto after = follows;
  static constexpr program pass(program const& p, slot const& m) {
    auto out = p;
    char const name[] = {letter, 0};
    if (m.marks) out.add_axis({.name = out.names.add("", name), .extent = 1});
    return out;
  }
};
using a_when_built = marks<'a', pass_name::built>;
using b_when_differentiated = marks<'b', pass_name::differentiated>;
using c_when_built = marks<'c', pass_name::built>;

struct without_pass {
  using slot = marking<'x'>;
  static constexpr slot value{};
  static constexpr auto after = pass_name::built;
};
struct without_after {
  using slot = marking<'x'>;
  static constexpr slot value{};
  static constexpr program pass(program const& p, slot const&) { return p; }
};
struct after_a_number : marks<'x', pass_name::built> {
  static constexpr int after = 1;
};
static_assert(has_own_pass<a_when_built> && !has_own_pass<marks_nothing<'a'>> && !has_own_pass<accumulate<2>>);
static_assert(!has_own_pass<without_pass> && !has_own_pass<without_after> && !has_own_pass<after_a_number> &&
              !has_own_pass<optimizer::adamw>);

template <class... list> struct source {
  using policies = constrain::policies<list...>;
  using optimizer = optimizer::sgd;
  static constexpr program build() { return chain_task<3>::build(entry::step, dtype::f32); }
};
template <class... list> using passes = step_passes<source<list...>>;

/// The letters of a program's axes, in the order in which they were added.
constexpr bool is_marked(program const& p, std::string_view letters) {
  std::size_t found = 0;
  for (auto const& axis : p.axes)
    if (auto const name = p.text(axis.name); name.size() == 1)
      if (found >= letters.size() || name[0] != letters[found++]) return false;
  return found == letters.size();
}

// Each pass runs after the pass that it names; passes after the same one run in the order of the list.
using in_order = passes<a_when_built, b_when_differentiated, c_when_built>;
static_assert(is_marked(in_order::built, "") && is_marked(in_order::selected, "ac") && is_marked(in_order::cast, "ac"));
static_assert(is_marked(in_order::differentiated, "ac") && is_marked(in_order::updated, "acb") &&
              is_marked(in_order::final, "acb"));
static_assert(is_marked(passes<c_when_built, a_when_built>::final, "ca"));
// A default changes nothing, and nothing changes where no policy brings a pass.
static_assert(same(passes<marks_nothing<'a'>>::final, passes<>::final) && is_marked(passes<>::final, ""));
// Without gradients the passes behind them do not run.
static_assert(is_marked(forward_passes<source<a_when_built, b_when_differentiated>>::final, "a"));
// An invalid pass is reported, and no pass runs after it.
static_assert(passes<without_pass>::final.failure.refusal == refusal_with<refusals::own_pass_is_missing>());
static_assert(passes<without_after>::final.failure.refusal == refusal_with<refusals::own_pass_has_no_predecessor>());
static_assert(passes<without_pass, a_when_built>::final.failure.refusal ==
              refusal_with<refusals::own_pass_is_missing>());
// So is a pass that leaves a loop without an end or an end without a loop, or nests loops too deep, wherever it runs.
enum class fault { no_end, no_loop, too_deep };
template <fault what, pass_name follows> struct unsound {
  using slot = marking<'x'>;
  static constexpr slot value{.marks = true};
  static constexpr auto after = follows;
  static constexpr program pass(program const& p, slot const&) {
    auto out = p;
    for (int k = 0; what != fault::no_loop && k < (what == fault::too_deep ? 7 : 1); ++k) out.begin_loop(0, false);
    for (int k = 0; what != fault::no_end && k < (what == fault::too_deep ? 7 : 1); ++k) out.end_loop();
    return out;
  }
};
template <fault what> constexpr bool is_refused_as(why reason) {
  auto const is_refused = [&](program const& p) { return p.failure.reason == reason; };
  return is_refused(passes<unsound<what, pass_name::built>>::final) &&
         is_refused(passes<unsound<what, pass_name::without_dead_code>>::final) &&
         is_refused(passes<unsound<what, pass_name::differentiated>>::final) &&
         is_refused(passes<unsound<what, pass_name::updated>>::final) &&
         is_refused(passes<unsound<what, pass_name::sharded>>::final);
}
static_assert(is_refused_as<fault::no_end>(why::loops_do_not_nest));
static_assert(is_refused_as<fault::no_loop>(why::loops_do_not_nest));
static_assert(is_refused_as<fault::too_deep>(why::program_too_large));

} // namespace

TEST_CASE("a table of passes has those of the policies, each behind the one that it follows") {
  std::vector<std::string> names;
  std::vector<bool> marked;
  in_order::for_each([&](char const* name, program const& p) {
    names.push_back(name);
    marked.push_back(is_marked(p, names.size() <= 1 ? "" : names.size() == 2 ? "a" : names.size() <= 8 ? "ac" : "acb"));
  });
  REQUIRE(names.size() == 15);
  CHECK(names[0] == "built");
  CHECK(names[1] == policy_name<a_when_built>());
  CHECK(names[2] == policy_name<c_when_built>());
  CHECK(names[3] == "selected");
  CHECK(names[7] == "differentiated");
  CHECK(names[8] == policy_name<b_when_differentiated>());
  CHECK(names[14] == "in place");
  for (bool each : marked) CHECK(each);
}
