#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/train/advise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A number of bytes as text; exact below 1 KiB.
[[gnu::cold]] CONSTRAIN_INLINE std::string missing_bytes_text(bytes b) {
  return b >= kibibytes(1) ? bytes_text(b) : counted(b.count(), "byte");
}

[[gnu::cold]] CONSTRAIN_INLINE void check_memory(bytes memory) {
  if (memory < bytes(1))
    throw error({"advise: the memory is ", counted(memory.count(), "byte"),
                 "; give the memory of the device, for example ct::gibibytes(16)"});
}

[[gnu::cold]] CONSTRAIN_INLINE void finish_advice(advice& a, bytes memory, std::int64_t sequences,
                                                  std::int64_t evaluation_sequences, bytes largest) {
  bytes smallest_peak = a.table[0].peak;
  for (auto const& row : a.table) smallest_peak = row.peak < smallest_peak ? row.peak : smallest_peak;
  a.index = fastest(a.table.data(), static_cast<int>(a.table.size()));
  a.text = estimates_text(a.table.data(), a.names.data(), static_cast<int>(a.table.size()), a.index);
  if (a.index >= 0) {
    a.text += concat({"* is the fastest that fits: ", a.names[static_cast<std::size_t>(a.index)], "\n"});
    return;
  }
  a.missing = smallest_peak - memory;
  a.text += concat({"nothing fits: the smallest plan needs ", missing_bytes_text(a.missing), " more\n"});
  if (sequences > 1)
    a.text += "- write fewer sequences in a micro-batch; accumulate<N> then keeps the batch size, with an optimizer "
              "without in_backward\n";
  if (evaluation_sequences > sequences) a.text += "- write fewer .evaluation_sequences in the micro_batch\n";
  if (largest > memory)
    a.text += "- the largest parameter and its gradient in fp32 do not fit: tiling of a layer is not implemented yet; "
              "parallel::tensor<ranks> divides layers over several processes on CPUs\n";
  a.text +=
      "- on several devices, parallel::zero<3, ranks>, with an optimizer without in_backward, shards the tensors; on "
      "CPUs, parallel::tensor<ranks>, with an optimizer without quantized, divides the layers\n"
      "- on one device, states and parameters would have to be offloaded, which is not implemented yet\n";
}

} // namespace constrain::detail
