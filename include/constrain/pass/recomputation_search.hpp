#pragma once

#include "constrain/pass/rematerialize.hpp"

#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Searches for a set of nodes to drop (rematerialize.hpp) so that the plan takes at most `limit` bytes, with little
/// recomputation. The peak of a plan is not a sum over its values, so the caller makes the plan of each candidate:
///
///     recomputation_search s;
///     while (!s.is_done()) s = s.after(p, bytes_of_plan(rematerialize(p, s.candidate)), limit);
///     // s.best
///
/// The first candidate drops nothing, and the second drops everything. If the second fits, a bisection finds how few
/// groups of nodes suffice when groups with more bytes per cost are dropped first. The last candidates change the best
/// choice, the cheapest change first: each change keeps one group that the best choice drops, and drops up to two other
/// groups. The state of a search is public, so that a search can be a template argument.
struct recomputation_search {
  /// The stages of a search, by the candidate that comes next.
  enum class phase : std::uint8_t { nothing, everything, bisection, change, done };
  static constexpr std::int64_t refused = std::numeric_limits<std::int64_t>::max(); // the bytes of a refused plan
  static constexpr int most_plans = 32;                                             // maximum number of plans made

  phase now = phase::nothing;        // the stage that `candidate` belongs to
  node_set candidate;                // the set whose plan the caller makes next
  node_set best;                     // the best set so far; if no set fits, the one with the smallest plan
  std::int64_t best_bytes = refused; // the bytes of the plan of `best`
  int low = 0, high = 0;             // bisection: dropping `low` groups is too little, `high` is enough
  std::int64_t tried = 0;            // all changes to `best` that cost at most this much have been tried
  int plans = 0;                     // number of plans made so far

  /// Whether the search is over and `best` is its result.
  constexpr bool is_done() const { return now == phase::done; }

  /// The next state of the search. `bytes`: the bytes that the plan of `candidate` takes.
  constexpr recomputation_search after(program const& p, std::int64_t bytes, std::int64_t limit) const;
};

namespace detail {

/// The nodes that a search may drop, in groups. Nodes that need the same value are dropped together if the backward
/// pass does not read that value.
class recomputation_candidates {
public:
  constexpr explicit recomputation_candidates(program const& p) : forward_(p) {
    node_set const droppable = forward_.droppable();
    for (int i = 0; i < forward_.forward_nodes(); ++i)
      if (droppable.contains(i) && !forward_.is_read(i)) unread_.add(i);
    for (int i = 0; i < forward_.forward_nodes(); ++i)
      if (droppable.contains(i) && forward_.is_read(i)) add_to_group(p, i);
    for (auto& g : groups_) g.cost = cost_of(with(unread_, g));
    sort();
  }

  constexpr int size() const { return groups_.size(); }
  /// The first `count` groups, most bytes per cost first, and the nodes whose results the backward pass does not read.
  constexpr node_set first(int count) const {
    node_set out = unread_;
    for (int k = 0; k < count; ++k) out = with(out, groups_[k]);
    return out;
  }

  /// The cost of recomputation if these nodes are dropped.
  constexpr double cost_of(node_set const& dropped) const { return forward_.place(dropped).cost; }

  /// A changed choice and its cost.
  struct change {
    node_set dropped;
    std::int64_t cost = -1; // approximate cost of the recomputation; -1: there is no such change
  };

  /// The cheapest change to `dropped` with a cost above `tried` and at least 1 % below the cost of `dropped`.
  /// `bytes`: the bytes that the plan of `dropped` takes. A change that also drops other groups must be likely to fit
  /// into `limit`.
  constexpr change cheapest_change(node_set const& dropped, std::int64_t bytes, std::int64_t limit,
                                   std::int64_t tried) const {
    double const now = cost_of(dropped);
    double difference[most]{}; // decrease in cost if a dropped group is kept; increase if a kept group is dropped
    for (int k = 0; k < groups_.size(); ++k)
      difference[k] = (contains(dropped, k) ? now - cost_of(without(dropped, groups_[k]))
                                            : cost_of(with(dropped, groups_[k])) - now);
    change best;
    double least = 0.99 * now;
    auto const spare = static_cast<double>(limit - bytes);
    auto const consider = [&](int kept, int one, int other) {
      double cost = now - difference[kept], more = groups_[kept].bytes;
      for (int const k : {one, other})
        if (k >= 0) cost += difference[k], more -= groups_[k].bytes;
      if (cost >= least || cost < static_cast<double>(tried) + 1) return;
      // Some bytes of the kept group may be unused at the peak of the plan.
      if (one >= 0 && (spare < 0 || more > spare + groups_[kept].bytes / 4)) return;
      least = cost;
      best.dropped = without(dropped, groups_[kept]);
      for (int const k : {one, other})
        if (k >= 0) best.dropped = with(best.dropped, groups_[k]);
      best.cost = static_cast<std::int64_t>(cost);
    };
    for (int kept = 0; kept < groups_.size(); ++kept) {
      if (!contains(dropped, kept)) continue;
      consider(kept, -1, -1);
      for (int one = 0; one < groups_.size(); ++one) {
        if (contains(dropped, one) || difference[one] >= difference[kept]) continue;
        consider(kept, one, -1);
        for (int other = 0; other < one; ++other)
          if (!contains(dropped, other) && difference[one] + difference[other] < difference[kept])
            consider(kept, one, other);
      }
    }
    return best;
  }

private:
  /// Nodes that are dropped together.
  struct group {
    node_set nodes;
    double bytes = 0; // of the nodes' results
    double cost = 0;  // of recomputing the nodes
    int reads = -1;   // the value that all nodes need and the backward pass does not read; -1: none
  };
  static constexpr int most = 32; // maximum number of groups; further nodes join the last group

  constexpr bool contains(node_set const& dropped, int k) const {
    for (int i = 0; i < forward_.forward_nodes(); ++i)
      if (groups_[k].nodes.contains(i)) return dropped.contains(i);
    return false;
  }
  static constexpr node_set with(node_set dropped, group const& g) {
    for (int w = 0; w < node_set::size; ++w) dropped.words[w] |= g.nodes.words[w];
    return dropped;
  }
  static constexpr node_set without(node_set dropped, group const& g) {
    for (int w = 0; w < node_set::size; ++w) dropped.words[w] &= ~g.nodes.words[w];
    return dropped;
  }

  /// Adds node i to the group of nodes that need the same value, or to a new group.
  constexpr void add_to_group(program const& p, int i) {
    int needed = -1;
    for (auto const& input : p.nodes[i].inputs)
      if (int const writer = forward_.writer(input.value); writer >= 0 && unread_.contains(writer))
        needed = input.value;
    int found = -1;
    for (int k = 0; k < groups_.size(); ++k)
      if (needed >= 0 && groups_[k].reads == needed) found = k;
    if (found < 0) {
      group g;
      g.reads = needed;
      groups_.push_back(g);
      found = groups_.size() - 1;
    }
    groups_[found].nodes.add(i);
    for (auto const& output : p.nodes[i].outputs) {
      auto const& info = p.values[output.value];
      groups_[found].bytes += static_cast<double>(p.iterations(info) * info.shape.elements() * size_of(info.type));
    }
  }
  constexpr void sort() {
    auto const is_before = [](group const& a, group const& b) { return a.bytes * b.cost > b.bytes * a.cost; };
    for (int end = 1; end < groups_.size(); ++end)
      for (int k = end; k > 0 && is_before(groups_[k], groups_[k - 1]); --k) {
        auto const moved = groups_[k];
        groups_[k] = groups_[k - 1], groups_[k - 1] = moved;
      }
  }

  rematerialization forward_;
  node_set unread_; // nodes whose results the backward pass does not read; recomputed if a dropped node needs them
  fixed_vector<group, most> groups_;
};

} // namespace detail

constexpr recomputation_search recomputation_search::after(program const& p, std::int64_t bytes,
                                                           std::int64_t limit) const {
  auto next = *this;
  detail::recomputation_candidates const candidates(p);
  bool const fits = bytes <= limit;
  bool const is_better =
      best_bytes > limit ? bytes <= best_bytes : fits && candidates.cost_of(candidate) < candidates.cost_of(best);
  if (is_better) next.best = candidate, next.best_bytes = bytes, next.tried = 0;
  ++next.plans;
  if (now == phase::nothing) {
    next.now = fits || candidates.size() == 0 ? phase::done : phase::everything;
    next.candidate = candidates.first(candidates.size());
    return next;
  }
  if (now == phase::everything) next.high = candidates.size();
  if (now == phase::bisection) (fits ? next.high : next.low) = low + (high - low) / 2;
  // If dropping everything does not fit, `high` groups are not known to be enough, even if a later change fits.
  bool const bisects = now == phase::everything ? fits : now == phase::bisection;
  if (bisects && next.high - next.low > 1) {
    next.now = phase::bisection;
    next.candidate = candidates.first(next.low + (next.high - next.low) / 2);
    return next;
  }
  auto const change = candidates.cheapest_change(next.best, next.best_bytes, limit, next.tried);
  next.now = change.cost < 0 || next.plans >= most_plans ? phase::done : phase::change;
  next.candidate = change.dropped;
  next.tried = change.cost;
  return next;
}

} // namespace constrain
