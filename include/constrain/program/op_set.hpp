#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/op_label.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A set of ops.
class op_set {
public:
  static constexpr int capacity = 16; // maximum number of ops; further ops are not added

  /// Adds an op.
  constexpr void add(std::uint64_t identity) { identities_.push_back(identity); }
  constexpr void add(op_label const& op) { add(op.identity); }
  /// Whether the op is in the set.
  constexpr bool contains(std::uint64_t identity) const { return identities_.contains(identity); }
  constexpr bool contains(op_label const& op) const { return contains(op.identity); }

  friend constexpr bool operator==(op_set const&, op_set const&) = default;

private:
  fixed_vector<std::uint64_t, capacity> identities_;
};

} // namespace constrain
