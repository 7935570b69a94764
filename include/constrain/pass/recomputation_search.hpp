#pragma once

#include "constrain/pass/recomputation_estimate.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Searches for a cheap choice of nodes to drop (recomputation_estimate.hpp) with which the memory plan takes at most
/// `limit` bytes. The caller makes the plan of each candidate:
///
///     recomputation_estimate const e(p);
///     recomputation_search s;
///     while (!s.is_done) s = s.after(e, bytes_of_plan(rematerialize(p, e.nodes(s.candidate))), limit);
///     // s.choice()
///
/// The first candidate drops nothing; if its plan fits or cannot be made, the search ends. As soon as a plan fits, each
/// further candidate costs at least 1 % less than the cheapest choice that fits. The plan of a candidate is expected to
/// differ from its estimate by about as many bytes as the plan of the most similar earlier candidate did. The next
/// candidate is the cheapest that is expected to fit. If no candidate is expected to fit, the next candidate is the one
/// with the smallest expected plan. The search for the next candidate is local, so it may miss a better one. If no plan
/// fits, and four plans were made or there is no other candidate, the next candidate drops everything, unless its plan
/// was already made. The search also ends after `maximum_plans` plans, if it finds no new candidate, or if the next
/// plan is too unlikely to fit (`detail::candidate_search::is_hopeless`).
struct recomputation_search {
  static constexpr std::int64_t refused = std::numeric_limits<std::int64_t>::max(); // means: no plan can be made
  static constexpr int maximum_plans = 32;                                          // maximum number of plans made

  /// A candidate and its plan.
  struct made_plan {
    std::uint64_t choice = 0;   // the candidate's equivalent (`recomputation_estimate::result::choice`)
    double cost = 0;            // of the recomputation, by the estimate
    std::int64_t estimated = 0; // bytes by the estimate
    std::int64_t bytes = 0;     // bytes of the plan, or `refused`
  };

  fixed_vector<made_plan, maximum_plans> made; // the plans made so far, in the order of the search
  std::uint64_t candidate = 0;                 // the choice whose plan the caller makes next
  int best = -1;                               // index in `made` of the cheapest choice that fits; -1: none fits
  bool is_done = false;                        // whether the search is over

  /// The result of the search so far: the cheapest choice that fits; if none fits, the one with the smallest plan; 0 if
  /// no plan was made.
  constexpr std::uint64_t choice() const {
    int index = best;
    for (int k = 0; best < 0 && k < made.size(); ++k)
      if (index < 0 || made[k].bytes < made[index].bytes) index = k;
    return index < 0 ? 0 : made[index].choice;
  }

  /// Whether the plan of `equivalent` (`made_plan::choice`) was made.
  constexpr bool has_made(std::uint64_t equivalent) const {
    for (auto const& m : made)
      if (m.choice == equivalent) return true;
    return false;
  }

  /// The next state of the search. `bytes`: the bytes that the plan of `candidate` takes, or `refused`. `estimate` and
  /// `limit` must be the same in every call of a search.
  constexpr recomputation_search after(recomputation_estimate const& estimate, std::int64_t bytes,
                                       std::int64_t limit) const;
};

namespace detail {

/// Looks for the next candidate of a search.
class candidate_search {
public:
  /// `state`: a search that made at least one plan, and whose first plan was not refused. `estimate` and `state` must
  /// outlive this object. `limit`: the maximum bytes of a plan.
  constexpr candidate_search(recomputation_estimate const& estimate, recomputation_search const& state,
                             std::int64_t limit)
      : estimate_(estimate), state_(state), limit_(limit), remaining_estimates_(maximum_steps / estimate.steps()),
        cost_limit_(state.best < 0 ? std::numeric_limits<double>::infinity() : 0.99 * state.made[state.best].cost) {
    auto const error_of = [](recomputation_search::made_plan const& m) { return m.bytes - m.estimated; };
    auto minimum_error = error_of(state.made[0]), maximum_error = minimum_error;
    for (auto const& m : state.made) {
      if (m.bytes == recomputation_search::refused) continue;
      minimum_error = std::min(minimum_error, error_of(m));
      maximum_error = std::max(maximum_error, error_of(m));
    }
    // Few plans say little about the error, so it is at least 1/32 of the first plan's excess over the limit.
    error_ = std::max(maximum_error - minimum_error, (state.made[0].bytes - limit) / 32);
    // As long as no plan fits, each candidate after the fourth plan has a lower limit than the one before.
    if (state.best < 0) limit_ = std::max<std::int64_t>(limit - std::max(0, state.made.size() - 3) * error_ / 2, 0);
  }

  /// Looks near the best choice and near the latest one. If no plan fits yet, also looks near the choice that drops
  /// everything. If a plan fits but no candidate is expected to fit, also tries larger changes of the best choice.
  constexpr void run() {
    improve(state_.choice());
    improve(state_.made.back().choice);
    if (state_.best < 0) improve(estimate_.all());
    else if (!found_ || best_.excess > 0) improve(state_.choice(), 2);
  }

  /// Whether a candidate was found.
  constexpr bool found() const { return found_; }
  /// The candidate, if one was found.
  constexpr std::uint64_t choice() const { return best_.choice; }
  /// Whether the candidate is not worth a plan: at least ten plans were made, one of them fits, and the candidate's
  /// plan is expected to exceed the limit by more than twice the error of the estimates. (With fewer plans, this error
  /// is not known well enough: the choices for 10 of 1824 limits of random programs then cost over 2 % more than the
  /// cheapest.)
  constexpr bool is_hopeless() const {
    return state_.best >= 0 && state_.made.size() >= 10 && best_.excess > 2 * error_;
  }

private:
  static constexpr int maximum_steps = 700'000; // compilers limit the work of a constant expression

  /// A choice, its cost and the bytes by which its plan is expected to exceed the limit.
  struct scored_choice {
    std::uint64_t choice = 0;
    double cost = 0;
    std::int64_t excess = 0;
  };

  /// Changes `choice` as long as a change gives a better candidate. A change drops or keeps one group, or keeps one
  /// dropped group and drops up to `maximum_dropped` kept groups.
  constexpr void improve(std::uint64_t choice, int maximum_dropped = 1) {
    auto const bit = [](int group) { return std::uint64_t{1} << group; };
    for (bool has_improved = true; has_improved && remaining_estimates_ > 0; choice = best_.choice) {
      has_improved = false;
      for (int a = 0; a < estimate_.size() && remaining_estimates_ > 0; ++a) {
        has_improved |= consider(choice ^ bit(a));
        if ((choice & bit(a)) == 0) continue;
        for (int b = 0; b < estimate_.size() && remaining_estimates_ > 0; ++b) {
          if ((choice & bit(b)) != 0) continue;
          auto const swapped = choice ^ bit(a) ^ bit(b);
          has_improved |= consider(swapped);
          for (int c = 0; maximum_dropped > 1 && c < b; ++c)
            if ((choice & bit(c)) == 0) has_improved |= consider(swapped ^ bit(c));
        }
      }
    }
  }

  /// Makes `choice` the candidate if it is new and better. Returns whether the candidate changed.
  constexpr bool consider(std::uint64_t choice) {
    if (--remaining_estimates_ < 0) return false;
    // A candidate that is expected to fit is replaced only by a cheaper one.
    auto const cost_limit = found_ && best_.excess == 0 ? best_.cost : cost_limit_;
    auto const e = estimate_.of(choice, cost_limit);
    if (e.cost >= cost_limit) return false;
    int nearest = recomputation_estimate::maximum_groups + 1;
    std::int64_t bytes = 0;
    for (auto const& m : state_.made) {
      int const distance = std::popcount(m.choice ^ e.choice);
      if (distance == 0) return false;
      if (distance > nearest) continue;
      nearest = distance;
      bytes = m.bytes == recomputation_search::refused ? m.bytes : e.bytes + m.bytes - m.estimated;
    }
    // The less alike two choices are, the less the plan of one says about the plan of the other.
    std::int64_t const excess = std::max<std::int64_t>(bytes - limit_ - (nearest - 1) * error_ / 2, 0);
    if (found_ && (excess != best_.excess ? excess > best_.excess : e.cost >= best_.cost)) return false;
    best_ = {e.choice, e.cost, excess};
    found_ = true;
    return true;
  }

  recomputation_estimate const& estimate_;
  recomputation_search const& state_;
  std::int64_t limit_; // the bytes that the plan of the candidate should take at most
  int remaining_estimates_;
  std::int64_t error_ = 0; // by how many bytes the estimates of similar choices can be wrong
  double cost_limit_;      // the candidate must be cheaper than this
  scored_choice best_;
  bool found_ = false;
};

} // namespace detail

constexpr recomputation_search recomputation_search::after(recomputation_estimate const& estimate, std::int64_t bytes,
                                                           std::int64_t limit) const {
  auto next = *this;
  auto const e = estimate.of(candidate);
  next.made.push_back({e.choice, e.cost, e.bytes, bytes});
  if (bytes <= limit && (best < 0 || e.cost < made[best].cost)) next.best = made.size();
  next.is_done = next.made.size() == maximum_plans || next.best == 0 || next.made[0].bytes == refused;
  if (next.is_done) return next;
  detail::candidate_search search(estimate, next, limit);
  search.run();
  next.is_done = !search.found() || search.is_hopeless();
  next.candidate = search.choice();
  if (next.best < 0 && (next.made.size() == 4 || !search.found()) && !next.has_made(estimate.of(estimate.all()).choice))
    next.candidate = estimate.all(), next.is_done = false;
  return next;
}

} // namespace constrain
