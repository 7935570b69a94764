#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A vector of at most `capacity` elements that lives in its object, so that it can be part of a constexpr value.
/// `push_back` beyond the capacity is refused (returns false); programs turn that into a diagnosis.
template <class T, int capacity_> struct fixed_vector {
  T elements[capacity_]{};
  int count = 0;

  static constexpr int capacity = capacity_;

  /// As std::vector's.
  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }

  /// Returns false, and changes nothing, where the vector is full.
  constexpr bool push_back(T const& element) {
    if (count == capacity) return false;
    elements[count++] = element;
    return true;
  }
  /// The vector must not be empty.
  constexpr void pop_back() { --count; }

  /// The index must be in range, the vector not empty.
  constexpr T& operator[](int i) { return elements[i]; }
  constexpr T const& operator[](int i) const { return elements[i]; }
  constexpr T& back() { return elements[count - 1]; }
  constexpr T const& back() const { return elements[count - 1]; }

  /// Iterators over the elements in use.
  constexpr T* begin() { return elements; }
  constexpr T* end() { return elements + count; }
  constexpr T const* begin() const { return elements; }
  constexpr T const* end() const { return elements + count; }

  /// Whether an element equals this one. Searches linearly.
  constexpr bool contains(T const& element) const {
    for (auto const& candidate : *this)
      if (candidate == element) return true;
    return false;
  }

  friend constexpr bool operator==(fixed_vector const& a, fixed_vector const& b) {
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i)
      if (!(a.elements[i] == b.elements[i])) return false;
    return true;
  }
};

} // namespace constrain
