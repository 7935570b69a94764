#pragma once

#include "block.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

namespace on_host {

/// Exchanges values between the lanes of a warp under one mask. Each lane has two values, used alternately, so that the
/// next call does not overwrite a value that is still to be read.
struct warp_exchange {
  unsigned mask = 0; // 0: not in use
  meeting where;
  std::uint64_t value[2][32]{};
  std::size_t bytes[2][32]{};
};

/// The exchanges of a block's warps.
class warps {
public:
  static constexpr int masks = 8; // different ones that a warp uses in a block

  /// The exchange of this thread's warp under a mask.
  ON_HOST_UNSEEN static warp_exchange& of(unsigned mask) {
    bookkeeping const unseen;
    static std::unique_ptr<warp_exchange[]> all;
    static std::uint64_t of_block = 0;
    auto& b = block::current();
    if (of_block != b.number()) {
      all.reset(new warp_exchange[(b.threads() + 31) / 32 * masks]);
      of_block = b.number();
    }
    auto* const mine = all.get() + threadIdx.x / 32 * masks;
    for (int i = 0; i < masks; ++i)
      if (mine[i].mask == mask || mine[i].mask == 0) {
        mine[i].mask = mask;
        return mine[i];
      }
    violated("__shfl_sync", "a warp has used more than 8 masks in a block", "the stand-in keeps no more");
  }
};

ON_HOST_UNSEEN inline std::size_t put(warp_exchange& e, unsigned lane, std::uint64_t bits, std::size_t bytes) {
  auto const turn = e.where.times % 2;
  e.value[turn][lane] = bits;
  e.bytes[turn][lane] = bytes;
  return turn;
}
ON_HOST_UNSEEN inline std::uint64_t take(warp_exchange const& e, std::size_t turn, int lane, std::size_t bytes) {
  if (e.bytes[turn][lane] != bytes)
    violated("__shfl_sync", text("lane ", lane, " gave a value of ", e.bytes[turn][lane], " bytes instead of ", bytes),
             "all lanes of the mask must reach the same call");
  return e.value[turn][lane];
}

/// Gives `x` to the other lanes of the mask, and takes the value of lane `source`.
template <class T> T take_from_lane(unsigned mask, T x, int source, bool orders = false) {
  static_assert(sizeof(T) <= 8);
  auto const lane = threadIdx.x % 32;
  if ((mask >> lane & 1u) == 0 || (mask >> source & 1u) == 0)
    violated("__shfl_sync", text("lane ", lane, " reads lane ", source, " under the mask ", mask),
             "both must be in the mask");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  auto& e = warps::of(mask);
  auto const turn = put(e, lane, bits, sizeof x);
  block::current().meet(e.where, static_cast<std::size_t>(std::popcount(mask)), orders);
  bits = take(e, turn, source, sizeof x);
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

} // namespace on_host
