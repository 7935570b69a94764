#pragma once

#include "measure.hpp"

#include <constrain/constrain.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace constrain::bench {

/// One strategy: its planned memory and estimated speed, and its measurements.
struct strategy_row {
  std::string key;                              // short name, for the command line and the figures
  std::string name;                             // name of its policies
  memory_plan memory;                           // memory plan
  double estimate = 0;                          // tokens per second, estimated by the cost model
  std::function<comparison(token_count)> train; // trains on this many tokens and evaluates
  std::vector<double> speeds{};                 // measured tokens per second, once per call of `train`
  comparison result{};                          // result of training on all tokens

  double speed() const { return median(speeds); }
};

/// Makes a row for `task` with the policies `set`.
template <class task, class set>
strategy_row make_row(std::string key, data::corpus const& corpus, compare_options const& options) {
  strategy_row row;
  row.key = std::move(key);
  row.name = set::name();
  row.memory = entries<task, set>::memory;
  row.estimate = detail::estimated<task, set>::within(row.memory.peak).tokens_per_second;
  row.train = [&corpus, options](token_count tokens) {
    auto o = options;
    o.tokens = tokens;
    return compare<task, set>(corpus, o).front();
  };
  return row;
}

/// The number of pairs of strategies whose measured speeds differ by more than 5 %, and how many of them the cost model
/// orders as the measurement does.
struct pair_order {
  int pairs = 0, right = 0;
};
inline pair_order order_of(std::vector<strategy_row> const& rows) {
  pair_order out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      double const measured = rows[i].speed() / rows[k].speed(), estimated = rows[i].estimate / rows[k].estimate;
      if (measured < 1.05 && 1 / measured < 1.05) continue;
      ++out.pairs;
      out.right += (measured > 1) == (estimated > 1) ? 1 : 0;
    }
  return out;
}

} // namespace constrain::bench
