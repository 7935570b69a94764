#include <constrain/policy/composition.hpp>
#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

using namespace constrain;

namespace {

using composed = decltype(composition_of<>());

/// Legality said once more, by hand: at most one of each, nothing unknown, at least one of what is counted, a stage
/// that exists, MPI where there are processes, nvcc and a known architecture where there is a CUDA device, graphs, no tiled
/// attention, no fusion and no processes there, and an optimizer that can start and step.
template <class... slots> constexpr bool given_once(choices<slots...> const& c) {
  return ((static_cast<said<slots> const&>(c).given <= (std::is_same_v<slots, slot_of::unknown> ? 0 : 1)) && ...);
}
constexpr bool legal(composed const& c) {
  if (!given_once(c) || c.micro_batches < 1 || c.shards < 1 || c.stage != 3) return false;
  if (c.recomputes && c.iterations < 1) return false;
  if (c.distributed && !c.has_mpi) return false;
  if (c.is_cuda && (!c.compiled || c.capability < 80 || c.distributed)) return false;
  if (c.records && !c.is_cuda) return false;
  if ((c.tiled || c.fuses) && c.is_cuda) return false;
  return c.has_state && c.has_update;
}

/// The name of the first broken rule, "" for none.
constexpr std::string_view broken(composed const& c) {
  auto const* rule = broken_rule(c);
  return rule != nullptr ? rule->name : "";
}

constexpr int broken_rules(composed const& c) {
  int count = 0;
  for (auto const& rule : policy_rules) count += rule.holds(c) ? 0 : 1;
  return count;
}

struct no_state {
  struct hyper {};
};
struct no_update {
  struct hyper {};
  template <class real> struct state {};
};

/// What the slot's examples, and the policies that it refuses, say; each value once.
template <class slot, class... policies> void append_values(policy_list<policies...>, std::vector<slot>& values) {
  auto const append = [&](slot const& value) {
    for (auto const& known : values)
      if (known == value) return;
    values.push_back(value);
  };
  (append(value_of<policies>()), ...);
}
template <class slot> std::vector<slot> values_of() {
  std::vector<slot> values;
  if constexpr (requires { typename slot::examples; }) append_values(typename slot::examples{}, values);
  else values.push_back({});
  if constexpr (requires { typename slot::refused; }) append_values(typename slot::refused{}, values);
  // What no policy of this program says.
  if constexpr (std::is_same_v<slot, slot_of::optimizer>) append_values(policy_list<no_state, no_update>{}, values);
  auto const count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto other = values[i];
    if constexpr (requires { other.has_mpi; }) other.has_mpi = !other.has_mpi, values.push_back(other);
    if constexpr (requires { other.compiled; }) other.compiled = !other.compiled, values.push_back(other);
  }
  return values;
}

/// Every composition of these values with every slot given once; and with one or two slots given twice, or a type that is
/// no policy, for each of the values of those slots.
template <class function, class... slots> void for_each_composition(function const& f, choices<slots...> const&) {
  auto const vary = [&]<class first, class... rest>(auto const& self, composed c, int twice, slot_list<first, rest...>) -> void {
    for (auto const& value : values_of<first>()) {
      static_cast<first&>(c) = value;
      for (int more = 0; more <= (twice > 0 ? 1 : 0); ++more) {
        static_cast<said<first>&>(c).given = more + (std::is_same_v<first, slot_of::unknown> ? 0 : 1);
        if constexpr (sizeof...(rest) == 0) f(c);
        else self(self, c, twice - more, slot_list<rest...>{});
      }
    }
  };
  vary(vary, {}, 2, slot_list<slots...>{});
}

// Both signs at compile time.
struct bare {
  struct hyper {};
};
using of_two_optimizers = composition<optimizer::sgd, optimizer::adamw>;
static_assert(broken(composition_of<>()) == "" && composition_is_legal<composition<>>::value);
static_assert(broken(of_two_optimizers::choices::value) == "one_optimizer");
static_assert(broken_rules(of_two_optimizers::choices::value) == 1);
static_assert(of_two_optimizers::broken >= 0 && composition<optimizer::sgd>::broken < 0);
static_assert(broken(composition_of<precision::fp64, optimizer::sgd, accumulate<4>, checkpoint::every<2>>()) == "");
static_assert(broken(composition_of<accumulate<0>>()) == "some_micro_batches");
static_assert(broken(composition_of<checkpoint::every<0>>()) == "some_iterations");
static_assert(broken(composition_of<fusion::none, fusion::automatic>()) == "one_fusion");
static_assert(broken(composition_of<bare>()) == "optimizer_state");
static_assert(broken(composition_of<float>()) == "known_policies");
static_assert(composition_of<accumulate<2>, fusion::none>() == composition_of<fusion::none, accumulate<2>>());
static_assert(!(composition_of<accumulate<2>>() == composition_of<accumulate<3>>()));

} // namespace

TEST_CASE("a rule is broken exactly where the composition is not legal") {
  long all = 0, refused = 0;
  for_each_composition([&](composed const& c) {
    ++all;
    bool const is_legal = legal(c);
    refused += is_legal ? 0 : 1;
    if ((broken_rule(c) == nullptr) != is_legal || (broken_rules(c) == 0) != is_legal)
      FAIL("the table and the test disagree");
  }, composed{});
  MESSAGE(all << " compositions, " << all - refused << " legal");
  CHECK(all > 1'000'000);
  CHECK(refused > 0);
  CHECK(refused < all);
}

TEST_CASE("every rule is broken alone by some composition, and says what to write") {
  std::map<std::string, int> alone;
  for_each_composition([&](composed const& c) {
    if (broken_rules(c) == 1) ++alone[broken_rule(c)->name];
  }, composed{});
  std::map<std::string, int> sentences;
  for (auto const& rule : policy_rules) {
    CAPTURE(std::string(rule.name));
    CHECK(alone[rule.name] > 0);
    std::string const sentence = rule.sentence;
    CHECK(++sentences[sentence] == 1);
    // What, and after it what to write instead.
    CHECK(sentence.find(':') != std::string::npos);
    bool advises = false;
    for (auto const* word : {"write", "keep", "link"}) advises = advises || sentence.find(word) != std::string::npos;
    CHECK(advises);
  }
  CHECK(alone.size() == std::size(policy_rules));
}

TEST_CASE("the first broken rule is the one that is told") {
  auto c = of_two_optimizers::choices::value;
  static_cast<said<slot_of::precision>&>(c).given = 2;
  CHECK(std::string(broken_rule(c)->name) == "one_precision");
}
