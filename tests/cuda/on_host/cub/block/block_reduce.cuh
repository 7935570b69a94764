#pragma once

// cub::BlockReduce on the host, as strict as its contract: only thread 0 has the result, and the storage may be reused
// only after a barrier.

#include "cuda_runtime.h"
#include "stand_in/collective.hpp"

namespace cub {

template <class T, int threads> class BlockReduce {
public:
  struct TempStorage {
    T value[threads];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) { on_host::check_collective<threads>(storage); }

  T Sum(T x) {
    return Reduce(x, [](T a, T b) { return a + b; });
  }
  template <class function> T Reduce(T x, function const& f) {
    storage_.value[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x != 0) return T(-12345);
    T all = storage_.value[0];
    for (int i = 1; i < threads; ++i) all = f(all, storage_.value[i]);
    return all;
  }

private:
  TempStorage& storage_;
};

} // namespace cub
