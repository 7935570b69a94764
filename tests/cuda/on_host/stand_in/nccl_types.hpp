#pragma once

#include "violation.hpp"

#include <climits>
#include <constrain/base/dtype.hpp>

#include <cstddef>
#include <cstdint>

// The types and constants of NCCL that the library uses, with NVIDIA's values.

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  std::size_t size = 0;
  unsigned magic = 0, version = 0;
  int blocking = INT_MIN;
};
#define NCCL_CONFIG_INITIALIZER                                                                                        \
  { sizeof(ncclConfig_t), 0xcafebeef, 22809, INT_MIN }

inline char const* ncclGetErrorString(ncclResult_t e) {
  switch (e) {
  case ncclSuccess: return "no error";
  case ncclUnhandledCudaError: return "unhandled cuda error";
  case ncclSystemError: return "unhandled system error";
  case ncclInternalError: return "internal error";
  case ncclInvalidArgument: return "invalid argument";
  case ncclInvalidUsage: return "invalid usage";
  case ncclRemoteError: return "remote process exited or there was a network error";
  case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

namespace on_host {

inline std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8: return 1;
  case ncclFloat16:
  case ncclBfloat16: return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32: return 4;
  default: return 8;
  }
}

/// to[i] = the sum over the parts, in rank order; 16-bit types are summed in fp32.
template <class stored, class sum_type>
void sum_parts(char const* const* parts, int ranks, std::size_t count, char* to) {
  for (std::size_t i = 0; i < count; ++i) {
    sum_type sum = reinterpret_cast<stored const*>(parts[0])[i];
    for (int r = 1; r < ranks; ++r) sum += static_cast<sum_type>(reinterpret_cast<stored const*>(parts[r])[i]);
    reinterpret_cast<stored*>(to)[i] = static_cast<stored>(sum);
  }
}
inline void sum_parts(ncclDataType_t type, char const* const* parts, int ranks, std::size_t count, char* to) {
  switch (type) {
  case ncclFloat16: return sum_parts<constrain::float16, float>(parts, ranks, count, to);
  case ncclBfloat16: return sum_parts<constrain::bfloat16, float>(parts, ranks, count, to);
  case ncclFloat32: return sum_parts<float, float>(parts, ranks, count, to);
  case ncclFloat64: return sum_parts<double, double>(parts, ranks, count, to);
  case ncclInt32: return sum_parts<std::int32_t, std::int32_t>(parts, ranks, count, to);
  case ncclInt64: return sum_parts<std::int64_t, std::int64_t>(parts, ranks, count, to);
  default:
    violated("NCCL", "a sum of a type that no test needs", "the stand-in sums floating-point types and integers");
  }
}

} // namespace on_host
