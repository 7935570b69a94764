// Trains a small Llama on the same documents in two forms: packed into rows, and padded to one row each. Prints the
// time of a step in each form, and the largest difference between the losses:
//   bench.packing [--rounds N]
// Every step reads all documents, so both forms have the same tokens. The fraction of padding in the padded rows is the
// fraction of the time that packing should save.

#include "measure.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

namespace ct = constrain;

namespace {

constexpr int length = 256;
constexpr int padded_rows = 64; // the number of documents
constexpr int packed_rows = 32; // their lengths are 1 + 255, 9 + 247, ...: pairs fill rows

constexpr ct::llama padded_model{.layers = 2,
                                 .heads = 4,
                                 .key_value_heads = 4,
                                 .width = 128,
                                 .hidden = 384,
                                 .vocabulary = 256,
                                 .context = length,
                                 .rotary = {.theta = 10000}};
constexpr ct::llama packed_model = [] {
  auto m = padded_model;
  m.packed = true;
  return m;
}();
template <ct::llama model, int rows>
using trainer = ct::trainer<ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = rows, .tokens = length}>>;

ct::data::documents documents() {
  std::mt19937 random(3);
  ct::data::documents all;
  for (int i = 0; i < packed_rows; ++i)
    for (int size : {1 + 8 * i, length - 1 - 8 * i}) {
      std::vector<std::int32_t> tokens;
      for (int k = 0; k < size; ++k) tokens.push_back(static_cast<std::int32_t>(random() % 256));
      all.add(tokens);
    }
  return all;
}

/// The value after --rounds, or 13 without arguments; 0 for anything else.
int rounds_of(int count, char** arguments) {
  int rounds = 0;
  if (count == 1) return 13;
  if (count != 3 || std::string_view(arguments[1]) != "--rounds") return 0;
  std::string_view const text = arguments[2];
  auto const [end, failed] = std::from_chars(text.begin(), text.end(), rounds);
  return failed == std::errc() && end == text.end() && rounds > 0 ? rounds : 0;
}

} // namespace

int main(int count, char** arguments) try {
  int const rounds = rounds_of(count, arguments);
  if (rounds == 0) return std::fprintf(stderr, "bench.packing: write --rounds and a number of at least 1\n"), 2;
  auto const all = documents();
  auto const packed = ct::data::pack(all, {.length = length});
  auto const padded = ct::data::group_by_length(all, {.multiple = length}).front().padded;
  auto const tokens = static_cast<double>(all.all_tokens());
  std::printf("%lld documents, %.0f tokens; packed: %d rows, padded: %d rows, of which %.1f %% is padding\n",
              static_cast<long long>(all.size()), tokens, packed_rows, padded_rows,
              100 * (1 - tokens / (padded_rows * length)));

  // The padded model needs no lengths: no token sees the padding after it, and the padding has no labels.
  auto const rows = padded.inputs()[0].integers();
  trainer<packed_model, packed_rows> a;
  trainer<padded_model, padded_rows> b;
  std::vector<double> of_packed, of_padded;
  double distance = 0;
  for (int i = 0; i < rounds; ++i) {
    double losses[2]{};
    of_packed.push_back(
        constrain::bench::seconds_of([&] { losses[0] = a.step(a.batch(packed.inputs(), packed.labels())).loss; }));
    of_padded.push_back(constrain::bench::seconds_of([&] { losses[1] = b.step(b.batch(rows, padded.labels())).loss; }));
    distance = std::max(distance, std::abs(losses[0] - losses[1]));
  }
  auto const fast = constrain::bench::median(of_packed), slow = constrain::bench::median(of_padded);
  std::printf("seconds per step, medians of %d, alternating: packed %.4f, padded %.4f, %.2f x\n", rounds, fast, slow,
              slow / fast);
  std::printf("largest difference of the losses: %.1e\n", distance);
} catch (ct::error const& e) { return std::fprintf(stderr, "%s\n", e.what()), 1; }
