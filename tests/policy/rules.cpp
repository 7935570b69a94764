#include <constrain/policy/policies.hpp>
#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <string>
#include <string_view>

using namespace constrain;

namespace {

/// Legality said once more, by hand: at most one of each, nothing unknown, at least one of what is counted, a stage
/// that exists, MPI where there are processes, nvcc and a known architecture where there is a CUDA device, graphs, no tiled
/// attention, no fusion and no processes there, and an optimizer that can start and step.
constexpr bool legal(composition const& c) {
  for (int count : {c.precisions, c.optimizers, c.accumulations, c.checkpointings, c.parallelisms, c.devices, c.launches, c.attentions, c.fusions})
    if (count > 1) return false;
  if (c.unknown > 0 || c.micro_batches < 1 || c.shards < 1 || c.zero_stage != 3) return false;
  if (c.checkpoints && c.checkpoint_every < 1) return false;
  if (c.distributed && !c.has_mpi) return false;
  if (c.cuda && (!c.has_cuda || c.architecture < 80 || c.distributed)) return false;
  if (c.records && !c.cuda) return false;
  if ((c.tiled_attention || c.fuses) && c.cuda) return false;
  return c.optimizer_has_state && c.optimizer_has_update;
}

/// The name of the first broken rule, "" for none.
constexpr std::string_view broken(composition const& c) {
  auto const* rule = broken_rule(c);
  return rule != nullptr ? rule->name : "";
}

constexpr int broken_rules(composition const& c) {
  int count = 0;
  for (auto const& rule : policy_rules) count += rule.holds(c) ? 0 : 1;
  return count;
}

/// Every composition with one or two policies a slot, around the edges of every number.
template <class function> void for_each_composition(function const& f) {
  struct {
    int composition::*field;
    int from, to;
  } const numbers[] = {{&composition::precisions, 1, 2},    {&composition::optimizers, 1, 2},
                       {&composition::accumulations, 1, 2}, {&composition::checkpointings, 1, 2},
                       {&composition::parallelisms, 1, 2},  {&composition::devices, 1, 2},
                       {&composition::launches, 1, 2},      {&composition::unknown, 0, 1},
                       {&composition::micro_batches, 0, 1}, {&composition::checkpoint_every, 0, 1},
                       {&composition::zero_stage, 2, 3},    {&composition::shards, 0, 1},
                       {&composition::architecture, 79, 80}, {&composition::attentions, 1, 2},
                       {&composition::fusions, 1, 2}};
  bool composition::*const flags[] = {&composition::checkpoints, &composition::optimizer_has_state,
                                      &composition::optimizer_has_update, &composition::distributed,
                                      &composition::has_mpi, &composition::cuda, &composition::has_cuda,
                                      &composition::records, &composition::tiled_attention, &composition::fuses};
  auto const vary = [&](auto const& self, std::size_t i, composition c) -> void {
    if (i < std::size(numbers)) {
      for (int n = numbers[i].from; n <= numbers[i].to; ++n) {
        c.*numbers[i].field = n;
        self(self, i + 1, c);
      }
    } else if (i < std::size(numbers) + std::size(flags)) {
      for (bool flag : {false, true}) {
        c.*flags[i - std::size(numbers)] = flag;
        self(self, i + 1, c);
      }
    } else f(c);
  };
  vary(vary, 0, {});
}

// Both signs at compile time.
constexpr composition plain;
static_assert(broken(plain) == "" && composition_is_legal<plain>::value);
constexpr composition two_optimizers = [] {
  composition c;
  c.optimizers = 2;
  return c;
}();
static_assert(broken(two_optimizers) == "one_optimizer");
static_assert(broken_rules(two_optimizers) == 1);

struct bare {
  struct hyper {};
};
static_assert(broken(composition_of<>()) == "");
static_assert(broken(composition_of<precision::fp64, optimizer::sgd, accumulate<4>, checkpoint::every<2>>()) == "");
static_assert(broken(composition_of<accumulate<0>>()) == "some_micro_batches");
static_assert(broken(composition_of<checkpoint::every<0>>()) == "some_trips");
static_assert(broken(composition_of<fusion::none, fusion::automatic>()) == "one_fusion");
static_assert(broken(composition_of<bare>()) == "optimizer_state");
static_assert(broken(composition_of<float>()) == "known_policies");

} // namespace

TEST_CASE("a rule is broken exactly where the composition is not legal") {
  long all = 0, refused = 0;
  for_each_composition([&](composition const& c) {
    ++all;
    bool const is_legal = legal(c);
    refused += is_legal ? 0 : 1;
    if ((broken_rule(c) == nullptr) != is_legal || (broken_rules(c) == 0) != is_legal)
      FAIL("the table and the test disagree");
  });
  CHECK(all == 1 << 25);
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
    bool advises = false;
    for (auto const* word : {"write", "keep", "link"}) advises = advises || sentence.find(word) != std::string::npos;
    CHECK(advises);
  }
  CHECK(alone.size() == std::size(policy_rules));
}

TEST_CASE("the first broken rule is the one that is told") {
  composition c = two_optimizers;
  c.precisions = 2;
  CHECK(std::string(broken_rule(c)->name) == "one_precision");
}
