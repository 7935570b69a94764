#pragma once

#include <cstdint>

namespace on_host {

/// The number of CUDA, cuBLASLt and NCCL calls that can fail, so far. Calls that destroy an object cannot fail.
inline std::int64_t calls = 0;
/// The number of the call that fails next; 0: none. With `and_all_later`, as after an error that kills the context,
/// every call after it fails too.
inline std::int64_t failing_call = 0;
inline bool and_all_later = false;
inline char const* failed = nullptr; // the first call that did

/// If set, what happens before every call: a test may end or stop its process there.
inline void (*before_call)(char const*) = nullptr;

/// Whether the call that asks must fail, without effect.
inline bool fails(char const* call) {
  ++calls;
  if (before_call != nullptr) before_call(call);
  bool const now = calls == failing_call || (and_all_later && failing_call != 0 && calls > failing_call);
  if (now && failed == nullptr) failed = call;
  return now;
}

/// Lets the n-th call from now on fail; 0: none.
inline void let_fail(std::int64_t n, bool all_later = false) {
  calls = 0;
  failing_call = n;
  and_all_later = all_later;
  failed = nullptr;
}

} // namespace on_host
