#pragma once

#include "fingerprints/recorded.hpp"

#include <constrain/constrain.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

// Trains for 20 steps and compares the bits of the weights with recorded.hpp. They depend neither on the number of
// threads nor on the compiler (g++ 12 and clang 14 at -O1 and -O3 give the same); glibc's `exp`, `log`, `cos`, `tanh`,
// `erf` and `pow` are in them.
//
// If a set must change: with CONSTRAIN_FINGERPRINTS_WRITE=directory, the old programs write their weights there; with
// CONSTRAIN_FINGERPRINTS_COMPARE=directory, the new programs print how far their weights differ.

namespace constrain::test {

// Tensors of several thousand elements, no multiple of anything; a few are smaller than a thousand.
inline constexpr gpt2 fingerprinted_model{.layers = 5, .heads = 2, .width = 34, .vocabulary = 67, .context = 11};
template <int sequences>
using fingerprinted_task = task<fingerprinted_model, causal_lm, micro_batch{.sequences = sequences}>;

/// Of a trainer's parameters, in their order.
template <class trainer> std::vector<double> weights_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

struct training {
  std::vector<double> weights;
  int rank = 0;
};

/// 20 steps on batches that all ranks draw alike and of which each takes its part; sequences have very different
/// numbers of labels.
template <class trainer> training train(typename trainer::hyper const& hyper, run_options const& run) {
  trainer t(hyper, run);
  std::mt19937 random(29);
  auto const length = static_cast<std::size_t>(trainer::batch_tokens);
  std::vector<std::int32_t> inputs(length * static_cast<std::size_t>(t.ranks())), labels(inputs.size());
  auto const sequence = static_cast<std::size_t>(trainer::task::tokens);
  auto const classes = static_cast<unsigned>(trainer::entries::logits.features());
  for (int step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int32_t>(random() % trainer::entries::vocabulary);
      auto const label = static_cast<std::int32_t>(random() % classes);
      labels[i] = i % sequence < i / sequence % 5 ? ignored_label : label;
    }
    auto const begin = static_cast<std::size_t>(t.rank()) * length;
    t.step(t.batch(std::span(inputs).subspan(begin, length), std::span(labels).subspan(begin, length)));
  }
  return {weights_of(t), t.rank()};
}

inline std::uint64_t hash_of(std::vector<double> const& weights) { // FNV-1a
  std::uint64_t hash = 14695981039346656037u;
  for (double w : weights)
    for (auto byte : std::bit_cast<std::array<unsigned char, 8>>(w)) hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

inline std::filesystem::path weights_file(char const* directory, int set) {
  return std::filesystem::path(directory) / (std::to_string(set) + ".weights");
}

inline void write_weights(char const* directory, int set, std::vector<double> const& weights) {
  std::filesystem::create_directories(directory);
  std::ofstream file(weights_file(directory, set), std::ios::binary);
  file.write(reinterpret_cast<char const*>(weights.data()), std::ssize(weights) * 8);
}

/// Prints the largest difference of two weights, and that relative to the largest weight.
inline void say_distance(char const* directory, int set, std::vector<double> const& weights) {
  std::vector<double> before(weights.size());
  std::ifstream file(weights_file(directory, set), std::ios::binary);
  file.read(reinterpret_cast<char*>(before.data()), std::ssize(before) * 8);
  if (!file) return void(std::printf("  %s: there are no such weights in %s\n", recorded[set].name, directory));
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    apart = std::max(apart, std::abs(weights[i] - before[i]));
    largest = std::max(largest, std::abs(before[i]));
  }
  std::printf("  %s: max |dw| %.1e, relative to max |w| %.1e\n", recorded[set].name, apart, apart / largest);
}

/// Whether training set number `set` gives the recorded bits; says which it gives.
template <class trainer>
bool gives_recorded_bits(int set, typename trainer::hyper const& hyper, run_options const& run) {
  auto const [weights, rank] = train<trainer>(hyper, run);
  auto const hash = hash_of(weights);
  bool const same = hash == recorded[set].hash;
  if (rank != 0) {
    if (!same) std::fprintf(stderr, "rank %d: %s has other bits\n", rank, recorded[set].name);
    return same;
  }
  if (char const* directory = std::getenv("CONSTRAIN_FINGERPRINTS_WRITE")) write_weights(directory, set, weights);
  if (char const* directory = std::getenv("CONSTRAIN_FINGERPRINTS_COMPARE")) say_distance(directory, set, weights);
  std::printf("%s {\"%s\", 0x%016llx},%s\n", same ? "  " : "->", recorded[set].name,
              static_cast<unsigned long long>(hash), same ? "" : " is not what recorded.hpp has");
  return same;
}

} // namespace constrain::test
