#pragma once

#include "constrain/base/dtype.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// A type that converts to a read-only span of T.
template <class array, class T> concept is_array_of = std::is_convertible_v<array const&, std::span<T const>>;

/// A type that converts to a read-only span of std::int32_t, float or double.
template <class array>
concept is_array = is_array_of<array, std::int32_t> || is_array_of<array, float> || is_array_of<array, double>;

} // namespace detail

/// A view of a caller's array of std::int32_t, float or double, such as a std::vector, std::span or std::array.
class array_view {
public:
  /// An empty view, of type i32.
  array_view() = default;
  /// A view of the elements of `a`, which must outlive the view and every copy of it.
  template <detail::is_array array> constexpr array_view(array const& a) {
    if constexpr (detail::is_array_of<array, std::int32_t>) set(std::span<std::int32_t const>(a));
    else if constexpr (detail::is_array_of<array, float>) set(std::span<float const>(a));
    else set(std::span<double const>(a));
  }

  /// The number of elements.
  constexpr std::size_t size() const { return size_; }
  /// The type of the elements: i32, f32 or f64.
  constexpr dtype type() const { return type_; }
  /// The elements, which must have the C++ type T; this is not checked.
  template <class T> std::span<T const> as() const { return {static_cast<T const*>(data_), size_}; }
  /// The elements if their type is std::int32_t; otherwise an empty span.
  std::span<std::int32_t const> integers() const {
    return type_ == dtype::i32 ? as<std::int32_t>() : std::span<std::int32_t const>();
  }
  /// The bytes of the elements.
  std::span<std::byte const> bytes() const {
    return {static_cast<std::byte const*>(data_), size_ * static_cast<std::size_t>(size_of(type_))};
  }
  /// A view of `bytes` as elements of this view's type. `bytes` must outlive the result, and begin at an address that
  /// is aligned for the type. Bytes after the last full element are left out.
  array_view with_elements(std::span<std::byte const> bytes) const {
    auto copy = *this;
    copy.data_ = bytes.data(), copy.size_ = bytes.size() / static_cast<std::size_t>(size_of(type_));
    return copy;
  }
  /// A view of the elements [first, first + count), which must exist; this is not checked.
  array_view slice(std::size_t first, std::size_t count) const {
    auto copy = *this;
    copy.data_ = static_cast<std::byte const*>(data_) + first * static_cast<std::size_t>(size_of(type_));
    copy.size_ = count;
    return copy;
  }

private:
  template <class T> constexpr void set(std::span<T const> from) {
    data_ = from.data(), size_ = from.size(), type_ = dtype_of<T>;
  }

  void const* data_ = nullptr;
  std::size_t size_ = 0;
  dtype type_ = dtype::i32;
};

namespace detail {

/// A pointer to the elements, which must have the type `real`; this is not checked. The function compiles faster than
/// `as`, which instantiates std::span<real const>.
template <class real> real const* typed_data(array_view const& values) {
  return reinterpret_cast<real const*>(values.bytes().data());
}

} // namespace detail

/// Views of the arrays for the inputs of a model, or for the labels of an objective, in the order of declaration: one
/// array, or a list such as `{tokens, segments, lengths}`. The elements of the arrays must outlive the list.
class array_list {
public:
  static constexpr std::size_t capacity = 8; // maximum number of arrays in the list; equals `maximum_ports`

  /// No arrays.
  array_list() = default;
  /// One array.
  template <class array>
    requires detail::is_array<array>
  constexpr array_list(array const& a) : size_(1) { views_[0] = a; }
  /// One array: the `count` integers that start at `first`.
  constexpr array_list(std::int32_t const* first, std::size_t count)
      : array_list(std::span<std::int32_t const>(first, count)) {}
  /// Several arrays.
  constexpr array_list(std::initializer_list<array_view> arrays) : array_list(arrays.begin(), arrays.size()) {}
  /// Several arrays; their number need not be known at compile time.
  constexpr array_list(std::span<array_view const> arrays) : array_list(arrays.data(), arrays.size()) {}
  /// The `count` arrays that start at `first`.
  constexpr array_list(array_view const* first, std::size_t count) : size_(count) {
    for (std::size_t i = 0; i < count && i < capacity; ++i) views_[i] = first[i];
  }

  /// The number of arrays passed to the constructor; the list keeps only the first `capacity` of them.
  constexpr std::size_t size() const { return size_; }
  /// Array i, or an empty view if i is out of range.
  constexpr array_view operator[](std::size_t i) const { return i < size_ && i < capacity ? views_[i] : array_view(); }

protected:
  /// The `count` views that start at `first`, of a class derived from `array_view`; members that the class adds are not
  /// kept.
  template <std::derived_from<array_view> view>
  constexpr array_list(view const* first, std::size_t count) : size_(count) {
    for (std::size_t i = 0; i < count && i < capacity; ++i) views_[i] = first[i];
  }

private:
  array_view views_[capacity];
  std::size_t size_ = 0;
};

/// How the caller passes next-token labels, for example for `ct::causal_lm`.
enum class labels : std::uint8_t {
  shifted, // label i is the token after input i
  // label i is input i (as in Hugging Face Transformers), and the library shifts the labels by one token; the last
  // label of each sequence is then `ignored_label`
  shift,
};

} // namespace constrain
