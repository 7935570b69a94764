#pragma once

#include "strategy_row.hpp"

#include <constrain/base/formatted.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace constrain::bench {

/// A claim that guides to efficient training make about a strategy, with their figure and the figure found here. The
/// guides' figures in MiB are from "Efficient Training on a Single GPU" (Hugging Face Transformers 4.21).
struct claim {
  std::string text;     // the claim
  std::string theirs;   // the figure in the guides
  std::string ours;     // the figure measured or planned here; "not run" if a strategy is missing
  std::string judgment; // "holds" or "does not hold here"; empty if a strategy is missing
};

/// The claims, each compared with the measured rows.
inline std::vector<claim> judged_claims(std::vector<strategy_row> const& rows) {
  auto const find = [&](char const* key) -> strategy_row const* {
    auto const at = std::find_if(rows.begin(), rows.end(), [&](auto const& r) { return r.key == key; });
    return at == rows.end() ? nullptr : &*at;
  };
  using detail::formatted;
  std::vector<claim> out;
  auto const add = [&](char const* text, char const* theirs, std::vector<char const*> const& keys, auto const& judge) {
    claim c{text, theirs, "not run", ""};
    std::vector<strategy_row const*> found;
    for (auto const* key : keys) found.push_back(find(key));
    if (std::count(found.begin(), found.end(), nullptr) == 0) judge(c, found);
    out.push_back(c);
  };
  auto const says = [](bool holds) { return holds ? "holds" : "does not hold here"; };

  add("activation checkpointing of every layer takes more time", "20 to 30 %", {"fp32", "every_1"},
      [&](claim& c, auto const& r) {
        double const more = r[0]->speed() / r[1]->speed() - 1;
        c.ours = formatted("%+.1f %%", 100 * more), c.judgment = says(more >= 0.15 && more <= 0.35);
      });
  add("activation checkpointing of every layer takes less memory", "-22 % (8681 to 6775 MiB)", {"fp32", "every_1"},
      [&](claim& c, auto const& r) {
        double const less = 1 - r[1]->memory.peak / r[0]->memory.peak;
        c.ours = formatted("%+.0f %%", -100 * less), c.judgment = says(less > 0);
      });
  add("a quarter of the batch, accumulated four times, takes less memory", "-42 % (14949 to 8681 MiB)",
      {"fp32", "accumulate_4"}, [&](claim& c, auto const& r) {
        double const less = 1 - r[1]->memory.peak / r[0]->memory.peak;
        c.ours = formatted("%+.0f %%", -100 * less), c.judgment = says(less > 0);
      });
  add("a quarter of the batch, accumulated four times, takes more time", "+14 %", {"fp32", "accumulate_4"},
      [&](claim& c, auto const& r) {
        double const more = r[0]->speed() / r[1]->speed() - 1;
        c.ours = formatted("%+.1f %%", 100 * more), c.judgment = says(more > 0);
      });
  add("16-bit training is faster", "2.1 times", {"fp32", "bf16"}, [&](claim& c, auto const& r) {
    double const faster = r[1]->speed() / r[0]->speed();
    c.ours = formatted("%.2f times", faster), c.judgment = says(faster > 1.05);
  });
  add("8-bit AdamW stores 2 bytes of states per parameter instead of 8", "-6 bytes in large tensors",
      {"fp32", "adamw_8bit"}, [&](claim& c, auto const& r) {
        double const ratio = r[1]->memory.optimizer_state / r[0]->memory.optimizer_state;
        c.ours = formatted("%.2f times the bytes of fp32 AdamW's states", ratio), c.judgment = says(ratio < 0.3);
      });
  add("Adafactor stores hardly any states", "less than 1 % of AdamW's", {"fp32", "adafactor"},
      [&](claim& c, auto const& r) {
        double const ratio = r[1]->memory.optimizer_state / r[0]->memory.optimizer_state;
        c.ours = formatted("%.2f %% of AdamW's", 100 * ratio), c.judgment = says(ratio < 0.02);
      });
  add("micro-batch sizes that are a multiple of 8 are faster per token", "for tensor cores",
      {"fp32", "seven_sequences"}, [&](claim& c, auto const& r) {
        double const faster = r[0]->speed() / r[1]->speed();
        c.ours = formatted("%.2f times the speed of 7 sequences", faster), c.judgment = says(faster > 1.02);
      });
  return out;
}

} // namespace constrain::bench
