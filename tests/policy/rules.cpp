#include <constrain/policy/policies.hpp>
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>

using namespace constrain;

namespace {

/// Legality said once more, by hand: at most one of each, nothing unknown, at least one of what is counted, and an
/// optimizer that can start and step.
constexpr bool legal(composition const& c) {
  if (c.precisions > 1 || c.optimizers > 1 || c.accumulations > 1 || c.checkpointings > 1 || c.unknown > 0) return false;
  if (c.micro_batches < 1) return false;
  if (c.checkpoints && c.checkpoint_every < 1) return false;
  return c.optimizer_has_state && c.optimizer_has_update;
}

constexpr int broken_rules(composition const& c) {
  int count = 0;
  for (auto const& rule : policy_rules) count += rule.holds(c) ? 0 : 1;
  return count;
}

/// Every composition with up to two policies a slot.
template <class function> constexpr void for_each_composition(function const& f) {
  for (int precisions = 0; precisions <= 2; ++precisions)
    for (int optimizers = 0; optimizers <= 2; ++optimizers)
      for (int accumulations = 0; accumulations <= 2; ++accumulations)
        for (int checkpointings = 0; checkpointings <= 2; ++checkpointings)
          for (int unknown = 0; unknown <= 2; ++unknown)
            for (int micro_batches = -1; micro_batches <= 2; ++micro_batches)
              for (int every = -1; every <= 2; ++every)
                for (int flags = 0; flags < 8; ++flags) {
                  composition c;
                  c.precisions = precisions;
                  c.optimizers = optimizers;
                  c.accumulations = accumulations;
                  c.checkpointings = checkpointings;
                  c.unknown = unknown;
                  c.micro_batches = micro_batches;
                  c.checkpoint_every = every;
                  c.checkpoints = (flags & 1) != 0;
                  c.optimizer_has_state = (flags & 2) != 0;
                  c.optimizer_has_update = (flags & 4) != 0;
                  f(c);
                }
}

// Both signs at compile time.
constexpr composition plain;
static_assert(broken_rule(plain) == nullptr && composition_is_legal<plain>::value);
constexpr composition two_optimizers = [] {
  composition c;
  c.optimizers = 2;
  return c;
}();
static_assert(broken_rule(two_optimizers) != nullptr);
static_assert(broken_rule(two_optimizers)->name == std::string_view("one_optimizer"));
static_assert(broken_rules(two_optimizers) == 1);

struct bare {
  struct hyper {};
};
static_assert(composition_of<>() == plain);
static_assert(broken_rule(composition_of<precision::fp64, optimizer::sgd, accumulate<4>, checkpoint::every<2>>()) == nullptr);
static_assert(broken_rule(composition_of<accumulate<0>>())->name == std::string_view("some_micro_batches"));
static_assert(broken_rule(composition_of<checkpoint::every<0>>())->name == std::string_view("some_trips"));
static_assert(broken_rule(composition_of<bare>())->name == std::string_view("optimizer_state"));
static_assert(broken_rule(composition_of<float>())->name == std::string_view("known_policies"));

} // namespace

TEST_CASE("a rule is broken exactly where the composition is not legal") {
  long all = 0, refused = 0;
  for_each_composition([&](composition const& c) {
    ++all;
    bool const is_legal = legal(c);
    refused += is_legal ? 0 : 1;
    if ((broken_rule(c) == nullptr) != is_legal || (broken_rules(c) == 0) != is_legal) FAIL("the table and the test disagree");
  });
  CHECK(all == 3 * 3 * 3 * 3 * 3 * 4 * 4 * 8);
  CHECK(refused > 0);
  CHECK(refused < all);
}

TEST_CASE("every rule is broken alone by some composition, and says what to write") {
  std::map<std::string, int> alone;
  for_each_composition([&](composition const& c) {
    if (broken_rules(c) == 1) ++alone[broken_rule(c)->name];
  });
  std::map<std::string, int> sentences;
  for (auto const& rule : policy_rules) {
    CAPTURE(std::string(rule.name));
    CHECK(alone[rule.name] > 0);
    std::string const sentence = rule.sentence;
    CHECK(++sentences[sentence] == 1);
    // What, and after it what to write instead.
    CHECK(sentence.find(':') != std::string::npos);
    bool const advises = sentence.find("write") != std::string::npos || sentence.find("keep") != std::string::npos;
    CHECK(advises);
  }
  CHECK(alone.size() == std::size(policy_rules));
}

TEST_CASE("the first broken rule is the one that is told") {
  composition c = two_optimizers;
  c.precisions = 2;
  CHECK(std::string(broken_rule(c)->name) == "one_precision");
}
