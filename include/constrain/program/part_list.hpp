#pragma once

#include "constrain/base/fixed_vector.hpp"

#include <cstdint>
#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The tensors that a parameter holds one after another, such as the matrices of queries, keys and values in the weight
/// of one matmul.
struct part_list {
  static constexpr int maximum = 8; // maximum number of parts of a parameter

  int dimension = 0;                           // the dimension that is divided into parts; 0: the outermost
  fixed_vector<std::int64_t, maximum> extents; // of the parts in this dimension; empty: the parameter is one tensor
  bool too_many = false; // whether extents after the eighth were dropped; `in_parts` refuses such a list

  /// No parts.
  constexpr part_list() = default;
  /// Parts with these extents along dimension 0. Extents after the eighth are dropped.
  constexpr part_list(std::initializer_list<std::int64_t> e) {
    for (auto extent : e) too_many = !extents.push_back(extent);
  }

  friend constexpr bool operator==(part_list const&, part_list const&) = default;
};

} // namespace constrain
