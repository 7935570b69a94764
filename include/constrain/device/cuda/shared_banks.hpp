#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How often a warp's access to shared memory, 16 bytes a thread, goes to the banks: 4 without conflicts. Shared memory
/// has 32 banks of 4 bytes, and 8 threads take part at a time; of these, words of one bank that differ are read one
/// after the other. `offsets`: the byte offset of every lane, a multiple of 16.
constexpr int shared_accesses(std::int64_t const (&offsets)[32]) {
  int total = 0;
  for (int first = 0; first < 32; first += 8) {
    int most = 0;
    for (int bank = 0; bank < 32; ++bank) {
      int words = 0;
      for (int i = first; i < first + 8; ++i) {
        auto const word = offsets[i] / 4 + (bank - offsets[i] / 4 % 4 + 4) % 4;
        bool counts = word % 32 == bank;
        for (int before = first; before < i; ++before) counts = counts && offsets[before] != offsets[i];
        words += counts ? 1 : 0;
      }
      most = words > most ? words : most;
    }
    total += most;
  }
  return total;
}

} // namespace constrain
