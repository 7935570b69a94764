#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Number of transactions of a warp's access to shared memory, with 16 bytes per thread; 4 without bank conflicts.
/// Shared memory has 32 banks of 4 bytes. Eight consecutive threads access it at a time; if they access different words
/// of the same bank, each of these words takes one transaction. `offsets`: the byte offset of each thread, a multiple
/// of 16.
constexpr int shared_accesses(std::int64_t const (&offsets)[32]) {
  int total = 0;
  for (int first = 0; first < 32; first += 8) {
    int max_words = 0;
    for (int bank = 0; bank < 32; ++bank) {
      int words = 0;
      for (int i = first; i < first + 8; ++i) {
        auto const word = offsets[i] / 4 + (bank - offsets[i] / 4 % 4 + 4) % 4;
        bool is_new = word % 32 == bank;
        for (int j = first; j < i; ++j) is_new = is_new && offsets[j] != offsets[i];
        words += is_new ? 1 : 0;
      }
      max_words = words > max_words ? words : max_words;
    }
    total += max_words;
  }
  return total;
}

} // namespace constrain
