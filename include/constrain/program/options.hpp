#pragma once

#include "constrain/base/fields.hpp"
#include "constrain/program/attributes.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The options of an op without a member type `options`.
struct no_options {};

namespace detail {

template <class op> struct options_in { using type = no_options; };
template <class op>
  requires requires { typename op::options; }
struct options_in<op> {
  using type = typename op::options;
};

/// Number of fields of an op's `options`; 0: no fields, more than six, or a type that is not an aggregate or has a base
/// class.
template <class options> constexpr int option_count() {
  using any = any_field;
  if constexpr (!std::is_aggregate_v<options> || has_base<options>) return 0;
  else if constexpr (!requires { options{any{}}; }) return 0;
  else if constexpr (!requires { options{any{}, any{}}; }) return 1;
  else if constexpr (!requires { options{any{}, any{}, any{}}; }) return 2;
  else if constexpr (!requires { options{any{}, any{}, any{}, any{}}; }) return 3;
  else if constexpr (!requires { options{any{}, any{}, any{}, any{}, any{}}; }) return 4;
  else if constexpr (!requires { options{any{}, any{}, any{}, any{}, any{}, any{}}; }) return 5;
  else return requires {
      options{any{}, any{}, any{}, any{}, any{}, any{}, any{}};
    }
  ? 0 : 6;
}

template <class field>
concept is_option = std::is_arithmetic_v<field> || std::is_enum_v<field> || std::is_same_v<field, shape>;

/// Encodes an extent of 0, because 0 itself encodes a dimension that the shape does not have.
inline constexpr std::int64_t packed_zero_extent = std::numeric_limits<std::int64_t>::min();

/// Converts fields to 64-bit integers, in order. Integers beyond the capacity are counted, but not stored. `next`: the
/// number of integers so far.
struct option_packer {
  attributes packed;
  int next = 0;

  constexpr void put(std::int64_t number) {
    if (next < attributes::capacity) packed.number[next] = number;
    ++next;
  }
  template <class... field> constexpr void operator()(field const&... f) { (put_field(f), ...); }
  template <class field> constexpr void put_field(field const& f) {
    if constexpr (std::is_same_v<field, shape>)
      for (int k = 0; k < shape::maximum_rank; ++k)
        put(k >= f.rank ? 0 : f.extent[k] == 0 ? packed_zero_extent : f.extent[k]);
    else if constexpr (std::is_floating_point_v<field>) put(__builtin_bit_cast(std::int64_t, static_cast<double>(f)));
    else put(static_cast<std::int64_t>(f));
  }
};

/// Converts the integers back to fields. `next`: index of the next integer.
struct option_unpacker {
  attributes const& packed;
  int next = 0;
  std::int64_t bad_extent = 1; // an extent below 1 in a shape; 1: none

  template <class... field> constexpr void operator()(field&... f) { (unpack_field(f), ...); }
  template <class field> constexpr void unpack_field(field& f) {
    if constexpr (std::is_same_v<field, shape>) {
      f = {};
      for (int k = 0; k < shape::maximum_rank; ++k, ++next) {
        auto const extent = packed.number[next];
        if (extent == 0) continue;
        f.extent[f.rank++] = extent == packed_zero_extent ? 0 : extent;
        if (extent < 1) bad_extent = f.extent[f.rank - 1];
      }
    } else if constexpr (std::is_floating_point_v<field>)
      f = static_cast<field>(__builtin_bit_cast(double, packed.number[next++]));
    else f = static_cast<field>(packed.number[next++]);
  }
};

/// Checks that each field has a type that can be packed, and counts the integers that the fields need.
struct option_check {
  bool all_can_be_packed = true;
  int integers = 0;

  template <class... field> constexpr void operator()(field const&...) {
    all_can_be_packed = (is_option<field> && ...);
    integers = ((std::is_same_v<field, shape> ? shape::maximum_rank : 1) + ...);
  }
};

/// Whether an op's `options` can be packed.
template <class options> constexpr bool are_options() {
  if constexpr (std::is_empty_v<options>) return true;
  else if constexpr (option_count<options>() == 0) return false;
  else {
    options const o{};
    option_check check;
    with_fields<option_count<options>()>(o, check);
    return check.all_can_be_packed && check.integers <= attributes::capacity;
  }
}

} // namespace detail

/// The options of an op: its member type `options`, or `no_options` if the op has none. `options` is a struct without
/// base classes or constructors, with at most six fields, each an integer, a bool, an enum, a float, a double or a
/// `shape` (which counts as four fields). If the op's `infer` takes the options, a call whose options contain a shape
/// with an extent below 1 is refused.
template <class op> using options_of = typename detail::options_in<op>::type;

/// Converts options to the form in which a node stores them. Does not compile for a type that `options_of` does not
/// allow.
template <class options> constexpr attributes pack([[maybe_unused]] options const& o) {
  static_assert(detail::are_options<options>(),
                "an op's `options` must be a struct of at most six fields, each an integer, a bool, an enum, a float, "
                "a double or a ct::shape (which counts as four); leave out other fields, base classes and "
                "constructors");
  detail::option_packer packer;
  if constexpr (!std::is_empty_v<options> && detail::are_options<options>())
    detail::with_fields<detail::option_count<options>()>(o, packer);
  return packer.packed;
}

namespace detail {

/// The options that `pack` stored. `bad_extent`: an extent below 1 in one of their shapes; 1: none.
template <class options> struct unpacked {
  options values{};
  std::int64_t bad_extent = 1;

  constexpr explicit unpacked([[maybe_unused]] attributes const& packed) {
    if constexpr (!std::is_empty_v<options> && are_options<options>()) {
      option_unpacker unpacker{packed};
      with_fields<option_count<options>()>(values, unpacker);
      bad_extent = unpacker.bad_extent;
    }
  }
};

} // namespace detail

/// The options that `pack` stored.
template <class options> constexpr options unpack(attributes const& packed) {
  return detail::unpacked<options>(packed).values;
}

} // namespace constrain
