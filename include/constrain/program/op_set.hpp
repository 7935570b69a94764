#pragma once

#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/op_label.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A set of ops: up to `capacity` ops, or all ops.
class op_set {
public:
  static constexpr int capacity = 16; // maximum number of ops, unless the set has all

  /// Adds an op. If the set is already full, it has all ops from then on. This is safe, because sets list ops to avoid
  /// or to keep.
  constexpr void add(std::uint64_t identity) { has_all_ = !identities_.push_back(identity) || has_all_; }
  constexpr void add(op_label const& op) { add(op.identity); }
  /// Whether the op is in the set.
  constexpr bool contains(std::uint64_t identity) const { return has_all_ || identities_.contains(identity); }
  constexpr bool contains(op_label const& op) const { return contains(op.identity); }

  friend constexpr bool operator==(op_set const&, op_set const&) = default;

private:
  fixed_vector<std::uint64_t, capacity> identities_;
  bool has_all_ = false;
};

} // namespace constrain
