#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A vector of at most `capacity` elements that lives in its object, so that it can be part of a constexpr value.
/// `push_back` beyond the capacity is refused (returns false); programs turn that into a diagnosis.
template <class T, int capacity_> struct fixed_vector {
  T elements[capacity_]{};
  int count = 0;

  static constexpr int capacity = capacity_;

  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }

  constexpr bool push_back(T const& element) {
    if (count == capacity) return false;
    elements[count++] = element;
    return true;
  }
  constexpr void pop_back() { --count; }

  constexpr T& operator[](int i) { return elements[i]; }
  constexpr T const& operator[](int i) const { return elements[i]; }
  constexpr T& back() { return elements[count - 1]; }
  constexpr T const& back() const { return elements[count - 1]; }

  constexpr T* begin() { return elements; }
  constexpr T* end() { return elements + count; }
  constexpr T const* begin() const { return elements; }
  constexpr T const* end() const { return elements + count; }

  constexpr bool contains(T const& element) const {
    for (int i = 0; i < count; ++i)
      if (elements[i] == element) return true;
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
