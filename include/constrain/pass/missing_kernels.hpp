#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/program/op_label.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Ops without a kernel for the trainer's device, among the ops that passes choose. Empty: every op has a kernel.
class missing_kernels {
public:
  static constexpr int capacity = 16; // maximum number of ops; further ones count as ops with a kernel

  /// Adds an op.
  constexpr void add(op_label const& op) { identities_.push_back(op.identity); }
  /// Whether `op` is among these ops.
  constexpr bool contain(op_label const& op) const { return identities_.contains(op.identity); }

private:
  fixed_vector<std::uint64_t, capacity> identities_;
};

/// Those of `ops` without a kernel for `source::device`; none if `source` has no such member type.
template <class source, class... ops> constexpr missing_kernels missing_of() {
  missing_kernels out;
  if constexpr (requires { typename source::device; })
    ((has_kernel<ops, typename source::device> ? static_cast<void>(0) : out.add(detail::label_of<ops>)), ...);
  return out;
}

} // namespace constrain
