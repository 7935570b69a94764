#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/program/op_set.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The ops in `ops` without a kernel for `source::device`; empty if `source` has no member type `device`. All ops if
/// more of them have no kernel than an `op_set` can list.
template <class source, class... ops> constexpr op_set missing_of() {
  op_set out;
  if constexpr (requires { typename source::device; })
    ((has_kernel<ops, typename source::device> ? static_cast<void>(0) : out.add(detail::label_of<ops>)), ...);
  return out;
}

} // namespace constrain
