#pragma once

#include "cuda_runtime.h"
#include "stand_in/collective.hpp"

namespace cub {

template <class T, int threads> class BlockScan {
public:
  struct TempStorage {
    T value[threads];
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) { on_host::check_collective<threads>(storage); }

  /// `before`: the sum of the threads in front of this one; `all`: of all.
  void ExclusiveSum(T x, T& before, T& all) {
    storage_.value[threadIdx.x] = x;
    __syncthreads();
    before = all = 0;
    for (int i = 0; i < threads; ++i) {
      if (static_cast<unsigned>(i) < threadIdx.x) before += storage_.value[i];
      all += storage_.value[i];
    }
  }

private:
  TempStorage& storage_;
};

} // namespace cub
