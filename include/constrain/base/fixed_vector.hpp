#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A vector of at most `capacity` elements, stored inside the object, so that a constexpr constant can contain the
/// vector. A model whose `program` exceeds a capacity is rejected at compile time.
template <class T, int capacity_> struct fixed_vector {
  T elements[capacity_]{}; // the first `count` elements are in use
  int count = 0;           // number of elements in use

  static constexpr int capacity = capacity_; // maximum number of elements

  /// As in std::vector.
  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }

  /// Appends an element. Returns false, and does nothing, if the vector is full.
  constexpr bool push_back(T const& element) {
    if (count == capacity) return false;
    elements[count++] = element;
    return true;
  }
  /// As in std::vector.
  constexpr void pop_back() { --count; }
  /// Removes element `i`, which must exist; the elements after it move forward.
  constexpr void erase(int i) {
    for (--count; i < count; ++i) elements[i] = elements[i + 1];
  }

  /// As in std::vector.
  constexpr T& operator[](int i) { return elements[i]; }
  constexpr T const& operator[](int i) const { return elements[i]; }
  constexpr T& back() { return elements[count - 1]; }
  constexpr T const& back() const { return elements[count - 1]; }

  /// As in std::vector.
  constexpr T* begin() { return elements; }
  constexpr T* end() { return elements + count; }
  constexpr T const* begin() const { return elements; }
  constexpr T const* end() const { return elements + count; }

  /// Whether the vector contains an element equal to `element`.
  constexpr bool contains(T const& element) const {
    for (int i = 0; i < count; ++i)
      if (elements[i] == element) return true;
    return false;
  }

  /// Whether a and b have equal elements in the same order; elements that are not in use do not count.
  friend constexpr bool operator==(fixed_vector const& a, fixed_vector const& b) {
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i)
      if (!(a.elements[i] == b.elements[i])) return false;
    return true;
  }
};

} // namespace constrain
