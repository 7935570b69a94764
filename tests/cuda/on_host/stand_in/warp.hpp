#pragma once

#include "block.hpp"

#include <cstddef>
#include <cstdint>

namespace on_host {

/// Exchanges values between the lanes of a warp under one mask. Each lane has two values, used alternately, so that the
/// next call does not overwrite a value that is still to be read.
struct warp_exchange {
  static constexpr std::size_t largest = 24; // bytes of a value
  struct given {
    std::size_t bytes = 0;
    std::size_t reads = 0; // that the lane had made before this call
    unsigned char value[largest]{};
  };

  unsigned mask = 0; // 0: not in use
  meeting where;
  given by_lane[2][32];
  std::size_t reads[32]{}; // that each lane has made
};

/// The exchanges of a block's warps.
class warps {
public:
  static constexpr int masks = 8; // different ones that a warp uses in a block

  /// The exchange of this thread's warp under a mask.
  ON_HOST_UNSEEN static warp_exchange& of(unsigned mask) {
    if (of_block_ != block::current().number()) begin_block();
    auto* const mine = all_ + threadIdx.x / 32 * masks;
    for (int i = 0; i < masks; ++i)
      if (mine[i].mask == mask || mine[i].mask == 0) {
        mine[i].mask = mask;
        return mine[i];
      }
    violated("__shfl_sync", "a warp has used more than 8 masks in a block", "the stand-in keeps no more");
  }

private:
  static void begin_block() {
    bookkeeping const unseen;
    delete[] all_;
    all_ = new warp_exchange[(block::current().threads() + 31) / 32 * masks];
    of_block_ = block::current().number();
  }
  static inline warp_exchange* all_ = nullptr;
  static inline std::uint64_t of_block_ = 0;
};

/// Values that the lanes of a mask give in one call. A lane may read them until its next call.
template <class T> class exchanged {
public:
  /// Waits until all lanes of the mask have come. `orders`: what they did before is then seen by all.
  ON_HOST_UNSEEN exchanged(unsigned mask, T const& mine, bool orders = false)
      : mask_(mask), exchange_(warps::of(mask)), turn_(exchange_.where.times % 2) {
    static_assert(sizeof(T) <= warp_exchange::largest);
    check(static_cast<int>(threadIdx.x % 32));
    auto& to = exchange_.by_lane[turn_][threadIdx.x % 32];
    __builtin_memcpy(to.value, &mine, sizeof(T));
    to.bytes = sizeof(T);
    to.reads = exchange_.reads[threadIdx.x % 32];
    block::current().meet(exchange_.where, static_cast<std::size_t>(__builtin_popcount(mask)), orders);
    auto const& first = exchange_.by_lane[turn_][__builtin_ctz(mask)];
    if (to.reads != first.reads)
      violated("__shfl_sync",
               text("lane ", threadIdx.x % 32, " has read ", to.reads, " values, another lane ", first.reads),
               "all lanes of the mask read together");
  }
  ON_HOST_UNSEEN T operator[](int lane) const {
    ++exchange_.reads[threadIdx.x % 32];
    check(lane);
    auto const& from = exchange_.by_lane[turn_][lane];
    if (from.bytes != sizeof(T))
      violated("__shfl_sync", text("lane ", lane, " gave a value of ", from.bytes, " bytes instead of ", sizeof(T)),
               "all lanes of the mask must reach the same call");
    T result;
    __builtin_memcpy(&result, from.value, sizeof(T));
    return result;
  }

private:
  ON_HOST_UNSEEN void check(int lane) const {
    if ((mask_ >> lane & 1u) == 0)
      violated("__shfl_sync", text("lane ", threadIdx.x % 32, " reads lane ", lane, " under the mask ", mask_),
               "both must be in the mask");
  }

  unsigned mask_;
  warp_exchange& exchange_;
  std::size_t turn_;
};

/// Gives `x` to the other lanes of the mask, and takes the value of lane `source`.
template <class T> ON_HOST_UNSEEN T take_from_lane(unsigned mask, T x, int source) {
  return exchanged<T>(mask, x)[source];
}

} // namespace on_host
