#pragma once

#include "measure.hpp"

#include <constrain/constrain.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace constrain::bench {

/// One strategy: what the compiler knows of it, and what was measured.
struct strategy_row {
  std::string key;                              // short name, for the command line and the figures
  std::string name;                             // of its policies
  memory_plan memory;                           // planned
  double estimate = 0;                          // tokens per second, by the cost model
  std::function<comparison(token_count)> train; // trains on that many tokens and evaluates
  std::vector<double> speeds{};                 // tokens per second, of each pass
  comparison result{};                          // of the long pass

  double speed() const { return median(speeds); }
};

/// A row for `task` with the policies `set`.
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

/// Of all pairs whose measured speeds differ by more than 5 %: how many there are, and how many the cost model orders
/// as the measurement does.
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
