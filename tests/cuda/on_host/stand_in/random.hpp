#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace on_host {

/// Draws a number below `n`: all orders that CUDA leaves open are drawn. ON_HOST_SEED in the environment changes them.
inline std::uint64_t draw(std::uint64_t n) {
  static std::uint64_t state = [] {
    char const* const seed = std::getenv("ON_HOST_SEED");
    return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
  }();
  auto x = state += 0x9E3779B97F4A7C15u; // splitmix64, Steele, Lea and Flood 2014
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return ((x ^ (x >> 31)) >> 32) * n >> 32; // n is below 2^32
}

template <class T> void shuffle(std::vector<T>& all) {
  for (auto i = all.size(); i > 1; --i) std::swap(all[i - 1], all[draw(i)]);
}

} // namespace on_host
