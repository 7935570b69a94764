#pragma once

// Counts the memory accesses of kernels, warp by warp (accesses.cpp). The program is compiled with -fsanitize=thread
// and -DON_HOST_COUNTS_ACCESSES, and accesses.cpp and the linker without -fsanitize=thread: the compiler puts a call
// before every access, and accesses.cpp has the functions that are called, instead of ThreadSanitizer.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace on_host {

/// Requests of warps, and what they cost: in global memory, the sectors of 32 bytes that they touch; in shared memory,
/// transactions, as measured on devices of compute capability 7.0 and higher (if all threads read the same 8 or 16
/// bytes, a device may take fewer).
struct access_totals {
  std::int64_t requests = 0, cost = 0;
  std::int64_t least = 0; // the cost if the bytes of each request were side by side, or in different banks

  double ratio() const { return static_cast<double>(cost) / static_cast<double>(least); }
  access_totals& operator+=(access_totals const& x) {
    requests += x.requests, cost += x.cost, least += x.least;
    return *this;
  }
  friend access_totals operator-(access_totals const& x, access_totals const& y) {
    return {x.requests - y.requests, x.cost - y.cost, x.least - y.least};
  }
};
/// The accesses at one place of a kernel. The n-th accesses of a warp's threads at a place are one request: if threads
/// skip iterations of a loop, this is not always the request of a device.
struct accesses_of_place {
  std::string kernel;
  bool is_shared;      // whether the memory is shared or global
  std::uintptr_t code; // the place: an address in the program
  access_totals totals;
};

/// Counts an access of the running thread that is no access of the program: that of an asynchronous copy.
void count_access(void const* address, std::size_t bytes);
/// From now on, the accesses of kernels are counted, from none.
void count_accesses();
/// What was counted since.
std::vector<accesses_of_place> counted_accesses();

} // namespace on_host
