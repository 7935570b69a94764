#include "programs.hpp"

#include <constrain/pass/recomputation_search.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace constrain;
using namespace constrain::test;

namespace {

/// Every kind of layer, outside of repeats and inside, with activations that are cheap to recompute and others that are
/// costly.
struct mixed {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 8});
    x = gelu(linear("in", layer_norm("first", x), 24));
    x = repeat("block", 3, x, [](value x) { return x + linear("down", dropout(silu(linear("up", x, 40))), 24); });
    return linear("head", layer_norm("last", x), 8);
  }
};

using mixed_task = task<mixed{}, causal_lm, micro_batch{.sequences = 8, .tokens = 16}>;
using attention_task = task<gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 16, .context = 32}, causal_lm,
                            micro_batch{.sequences = 2}>;

/// Bytes of the plan of a program before fusion.
std::int64_t bytes_of(program const& p) {
  auto const fused = constrain::fuse(p, {.fuses = true});
  return plan_memory(in_place(slice_views(coalesce(fused)))).end;
}

/// A choice, its plan's bytes, and the cost of its recomputation.
struct choice {
  std::int64_t bytes;
  double cost;
};

/// All choices of nodes that the backward pass reads.
std::vector<choice> all_choices(program const& p) {
  constrain::detail::rematerialization const forward(p);
  auto const droppable = forward.droppable();
  std::vector<int> read;
  node_set unread;
  for (int i = 0; i < forward.forward_nodes(); ++i)
    if (droppable.contains(i)) {
      if (forward.is_read(i)) read.push_back(i);
      else unread.add(i);
    }
  REQUIRE(read.size() > 5);
  REQUIRE(read.size() < 14);
  std::vector<choice> all;
  for (unsigned subset = 0; subset < 1u << read.size(); ++subset) {
    auto dropped = unread;
    for (std::size_t k = 0; k < read.size(); ++k)
      if ((subset >> k & 1u) != 0) dropped.add(read[k]);
    all.push_back({bytes_of(forward.run(dropped)), forward.place(dropped).cost});
  }
  return all;
}

/// The result of a search, and the number of plans that it made.
struct found {
  choice result;
  int plans;
};
found search(program const& p, std::int64_t limit) {
  constrain::detail::rematerialization const forward(p);
  recomputation_search s;
  int plans = 0;
  for (; !s.is_done(); ++plans) s = s.after(p, bytes_of(forward.run(s.candidate)), limit);
  return {{bytes_of(forward.run(s.best)), forward.place(s.best).cost}, plans};
}

/// Compares searches with all choices, for limits from nothing to everything.
void check_limits(program const& p) {
  auto const all = all_choices(p);
  std::int64_t least = all[0].bytes, most = all[0].bytes;
  for (auto const& c : all) least = std::min(least, c.bytes);
  for (int step = 0; step <= 12; ++step) {
    auto const limit = least + (most - least) * step / 12;
    CAPTURE(limit);
    double cheapest = -1;
    for (auto const& c : all)
      if (c.bytes <= limit && (cheapest < 0 || c.cost < cheapest)) cheapest = c.cost;
    auto const [result, plans] = search(p, limit);
    CHECK(result.bytes <= limit);
    CHECK(result.cost <= 1.02 * cheapest);
    CHECK(plans <= recomputation_search::most_plans);
  }
}

} // namespace

TEST_CASE("recomputation_search: a limit that nothing fits gives the smallest plan that was found") {
  auto const p = updated(built<mixed_task>());
  auto least = bytes_of(p);
  for (auto const& c : all_choices(p)) least = std::min(least, c.bytes);
  CHECK(search(p, 1).result.bytes == least);
  CHECK(search(p, bytes_of(p)).plans == 1);
  CHECK(search(p, bytes_of(p)).result.cost == 0);
}

TEST_CASE("recomputation_search: as cheap as the cheapest of all choices that fit") {
  check_limits(updated(built<mixed_task>()));
  check_limits(updated(built<attention_task>()));
}

TEST_CASE("recomputation_search: if dropping everything does not fit, a change that fits is followed by changes") {
  auto const p = updated(built<mixed_task>());
  constexpr std::int64_t limit = 1000;
  // Plans made up for the search: they fit from plan `first` on, and before that, every seventh is smaller.
  for (int first = 3; first <= recomputation_search::most_plans; ++first) {
    CAPTURE(first);
    recomputation_search s;
    int plans = 0;
    for (; !s.is_done(); ++plans) {
      auto const beyond = plans == 0 ? 1000 : 100 - plans / 7 * 7 + plans % 7;
      s = s.after(p, plans + 1 >= first ? limit : limit + beyond, limit);
      CHECK(s.now != recomputation_search::phase::bisection);
    }
    CHECK(plans <= recomputation_search::most_plans);
  }
}
