// Compares strategies (sets of policies) on one task: memory by component, speed, and the loss after the same number of
// tokens. Checks the claims of guides to efficient training. Prints a table; with --out, also writes JSON and an HTML
// page.

#include "claims.hpp"
#include "strategies_page.hpp"
#include "strategy_row.hpp"

#include <constrain/base/formatted.hpp>
#include <constrain/constrain.hpp>
#include <constrain/io/atomic_file.hpp>
#include <constrain/io/json_writer.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace {

/// The main job's model (examples/main_job.hpp): 5 million parameters.
constexpr ct::gpt2 model{.layers = 6, .heads = 4, .width = 256, .vocabulary = 256, .context = 128};
template <int sequences> using task_of = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = sequences}>;
using task = task_of<8>;

struct arguments {
  std::string text = CONSTRAIN_BENCH_TEXT; // a file or directory; by default, the library's headers
  std::string only;                        // keys, separated by commas; empty: all
  std::string out;                         // directory for the JSON and the page; empty: not written
  std::int64_t tokens = 40'960;            // tokens that each strategy trains on
  std::uint64_t seed = 42;                 // seed of the initial weights and of the order of samples
  int rounds = 3; // short rounds, after the training, that measure only the speed; each runs every strategy once
};

/// The mean of the peaks of two trainers: one keeps all activations for the backward pass, the other keeps no op's
/// results (`checkpoint::keep<>`).
template <class... list>
constexpr ct::bytes half_way = (ct::entries<task, ct::policies<list...>>::memory.peak +
                                ct::entries<task, ct::policies<list..., ct::checkpoint::keep<>>>::memory.peak) /
                               2;

std::vector<strategy_row> all_strategies(ct::data::corpus const& corpus, ct::compare_options const& options) {
  using namespace constrain;
  std::vector<strategy_row> rows;
  auto const add = [&]<class task, class... list>(char const* key, std::type_identity<task>, policies<list...>) {
    rows.push_back(make_row<task, policies<list...>>(key, corpus, options));
  };
  constexpr std::type_identity<task> eight;
  add("fp32", eight, policies<>{});
  add("bf16", eight, policies<precision::bf16>{});
  add("fp16", eight, policies<precision::fp16>{});
  add("pure_bf16", eight, policies<precision::pure_bf16>{});
  add("tf32", eight, policies<precision::tf32>{});
  add("every_1", eight, policies<checkpoint::every<1>>{});
  add("sqrt", eight, policies<checkpoint::sqrt>{});
  add("keep_attention", eight, policies<checkpoint::keep<op::attention>>{});
  add("budget", eight, policies<checkpoint::budget<half_way<>>>{});
  add("accumulate_4", std::type_identity<task_of<2>>{}, policies<accumulate<4>>{});
  add("seven_sequences", std::type_identity<task_of<7>>{}, policies<>{});
  add("reference", eight, policies<attention::reference>{});
  add("adamw_8bit", eight, policies<optimizer::adamw_8bit>{});
  add("states_bf16", eight, policies<optimizer::states_in<dtype::bf16, optimizer::adamw>>{});
  add("in_backward", eight, policies<optimizer::in_backward<optimizer::adamw>>{});
  add("adafactor", eight, policies<optimizer::adafactor>{});
  add("lean", std::type_identity<task_of<2>>{},
      policies<precision::pure_bf16, optimizer::in_backward<optimizer::adamw_8bit>, checkpoint::every<1>>{});
  return rows;
}

/// Keeps the rows with a key of `only` (keys, separated by commas); all rows if `only` is empty. Throws `error` for a
/// key that no row has.
void keep_only(std::vector<strategy_row>& rows, std::string const& only) {
  if (only.empty()) return;
  std::string known;
  for (auto const& r : rows) known += (known.empty() ? "" : ", ") + r.key;
  std::vector<std::string> keys;
  std::istringstream list(only);
  for (std::string key; std::getline(list, key, ',');) {
    bool const found = std::any_of(rows.begin(), rows.end(), [&](strategy_row const& r) { return r.key == key; });
    if (!found)
      throw ct::error("strategies: --only names '" + key + "', but the keys are " + known + "; write only these");
    keys.push_back(key);
  }
  std::erase_if(rows, [&](strategy_row const& r) { return std::find(keys.begin(), keys.end(), r.key) == keys.end(); });
}

/// Trains every strategy on `a.tokens` tokens, then measures the speeds in `a.rounds` short rounds. Each round runs
/// every strategy once. The speed of the first training is the first of `speeds`.
void measure(std::vector<strategy_row>& rows, arguments const& a) {
  for (int round = -1; round < a.rounds; ++round)
    for (std::size_t k = 0; k < rows.size(); ++k) {
      auto& row = rows[k];
      std::fprintf(stderr, "\r%s %zu of %zu: %-20s", round < 0 ? "training" : "speed", k + 1, rows.size(),
                   row.key.c_str());
      auto const result = row.train(round < 0 ? a.tokens : std::min<std::int64_t>(a.tokens, 10'240));
      row.speeds.push_back(result.tokens_per_second);
      if (round < 0) row.result = result;
    }
  std::fprintf(stderr, "\r%60s\r", "");
}

void print(std::vector<strategy_row> const& rows) {
  std::printf("%-16s %10s %10s %12s %10s %8s  %s\n", "strategy", "tokens/s", "estimate", "planned MiB", "used MiB",
              "loss", "policies");
  for (auto const& r : rows)
    std::printf("%-16s %10.0f %10.0f %12.1f %10.1f %8.4f  %s\n", r.key.c_str(), r.speed(), r.estimate,
                r.memory.peak.mebibytes(), r.result.used_peak.mebibytes(), r.result.loss, r.name.c_str());
  auto const order = order_of(rows);
  std::printf("\npairs whose speeds differ by more than 5 %%: %d; the cost model gives the measured order for %d\n\n",
              order.pairs, order.right);
  for (auto const& c : judged_claims(rows))
    std::printf("%s: %s; here %s%s%s\n", c.text.c_str(), c.theirs.c_str(), c.ours.c_str(),
                c.judgment.empty() ? "" : ", ", c.judgment.c_str());
}

std::string json(std::vector<strategy_row> const& rows, arguments const& a) {
  ct::io::json_writer json;
  json.object().member("machine", machine_name()).member("gemm", ct::gemm_provider()).member("tokens", a.tokens);
  json.array("strategies");
  for (auto const& r : rows) {
    json.object(ct::io::json_layout::row).member("key", r.key).member("policies", r.name);
    json.member("tokens_per_second", r.speed()).member("estimated_tokens_per_second", r.estimate);
    json.member("loss", r.result.loss).member("used_bytes", r.result.used_peak.count());
    json.object("memory").member("peak", r.memory.peak.count()).member("weights", r.memory.weights.count());
    json.member("master_weights", r.memory.master_weights.count()).member("gradients", r.memory.gradients.count());
    json.member("optimizer_state", r.memory.optimizer_state.count());
    json.member("activations", r.memory.activations.count()).member("workspace", r.memory.workspace.count());
    json.member("communication", r.memory.communication.count()).member("shared", r.memory.shared.count());
    json.end().end();
  }
  json.end().array("claims");
  for (auto const& c : judged_claims(rows)) {
    json.object(ct::io::json_layout::row).member("claim", c.text).member("theirs", c.theirs).member("ours", c.ours);
    json.member("judgment", c.judgment).end();
  }
  json.end().end();
  return json.text() + "\n";
}

/// The files of --out, which are opened before the first measurement, so that a directory that cannot be written costs
/// no results. Without a commit, older files stay.
struct out_files {
  explicit out_files(std::string to) : path(std::move(to)), json(path + ".json"), html(path + ".html") {}
  std::string path; // without the extension
  ct::io::atomic_file json, html;
};

void write(ct::io::atomic_file& file, std::string const& path, std::string const& text) {
  file.out().write(text);
  file.commit();
  std::printf("%s\n", path.c_str());
}

/// The value of an option that is an integer of at least `least`; throws `error` for any other text.
template <class integer> integer parsed(std::string const& name, std::string const& text, integer least) {
  integer x{};
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (code != std::errc() || end != text.data() + text.size() || x < least)
    throw ct::error("strategies: " + name + " is '" + text + "'; write an integer from " + std::to_string(least) +
                    " to " + std::to_string(std::numeric_limits<integer>::max()));
  return x;
}

arguments parse(int count, char** values) {
  arguments a;
  for (int i = 1; i < count; ++i) {
    std::string const name = values[i];
    auto const value = [&]() -> std::string {
      if (++i == count) throw ct::error("strategies: " + name + " has no value; write the value after it");
      return values[i];
    };
    if (name == "--text") a.text = value();
    else if (name == "--only") a.only = value();
    else if (name == "--out") a.out = value();
    else if (name == "--tokens") a.tokens = parsed<std::int64_t>(name, value(), 1);
    else if (name == "--seed") a.seed = parsed<std::uint64_t>(name, value(), 0);
    else if (name == "--rounds") a.rounds = parsed<int>(name, value(), 0);
    else
      throw ct::error("strategies: the options are --text FILE, --only KEY,KEY, --tokens N, --rounds N, --seed N and "
                      "--out DIRECTORY, not '" +
                      name + "'");
  }
  return a;
}

} // namespace

int main(int count, char** values) {
  try {
    auto const a = parse(count, values);
    auto const corpus = ct::data::text(a.text);
    auto rows = all_strategies(corpus, {.learning_rate = 2e-3, .seed = a.seed});
    keep_only(rows, a.only);
    std::optional<out_files> out;
    if (!a.out.empty()) out.emplace(a.out + "/strategies." + machine_name());
    measure(rows, a);
    print(rows);
    if (!out) return 0;
    write(out->json, out->path + ".json", json(rows, a));
    auto const subtitle = "A GPT of 5 million parameters, " + std::to_string(a.tokens) + " tokens each, on " +
                          machine_name() + " with " + ct::gemm_provider() + ".";
    write(out->html, out->path + ".html", strategies_page(rows, subtitle).text());
  } catch (ct::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
