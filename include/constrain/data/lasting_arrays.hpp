#pragma once

#include "constrain/base/array_view.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A view of an array that outlives the view. Passing a temporary std::vector or std::array does not compile.
class lasting_array : public array_view {
public:
  /// A view of `a`.
  template <constrain::detail::is_array array> constexpr lasting_array(array const& a) : array_view(a) {}
  /// A copy of a view, whose array must outlive this view.
  constexpr lasting_array(array_view const& a) : array_view(a) {}

  // A temporary array would not live as long as its view.
  template <class T, class allocator> lasting_array(std::vector<T, allocator> const&&) = delete;
  template <class T, std::size_t size> lasting_array(std::array<T, size> const&&) = delete;
};

/// An `array_list` of arrays that outlive the list. Passing a temporary std::vector or std::array does not compile.
class lasting_arrays : public array_list {
public:
  /// One array.
  template <constrain::detail::is_array array> constexpr lasting_arrays(array const& a) : array_list(a) {}
  /// One array: the `count` integers from `first` on.
  constexpr lasting_arrays(std::int32_t const* first, std::size_t count) : array_list(first, count) {}
  /// Several arrays.
  constexpr lasting_arrays(std::initializer_list<lasting_array> arrays) : array_list(arrays.begin(), arrays.size()) {}
  /// Several arrays; their number need not be known at compile time.
  constexpr lasting_arrays(std::span<array_view const> arrays) : array_list(arrays) {}
  /// A copy of a list, whose arrays must outlive this list.
  constexpr lasting_arrays(array_list const& list) : array_list(list) {}

  // A temporary array would not live as long as the list.
  template <class T, class allocator> lasting_arrays(std::vector<T, allocator> const&&) = delete;
  template <class T, std::size_t size> lasting_arrays(std::array<T, size> const&&) = delete;
};

} // namespace constrain::data
