#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <type_traits>
#include <utility>

// Reflection on the fields of an aggregate (at most twelve), by position. C++20 has no reflection, so this header finds
// the number of fields by trying brace initialization, and accesses the fields through structured bindings.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Converts to any type: T{any_field{}, any_field{}} compiles if T has at least two fields.
struct any_field {
  template <class type> constexpr operator type() const noexcept;
};
/// `any_field`, for the expansion of a pack of indices.
template <int> using any_field_at = any_field;

/// Whether `type{value, ...}` compiles with one value for each i.
template <class type, int... i> constexpr bool has_fields(std::integer_sequence<int, i...>) {
  return requires { type{any_field_at<i>{}...}; };
}
/// Whether `type{{value}, ...}` compiles with one value for each i, each in inner braces.
template <class type, int... i> constexpr bool has_braced_fields(std::integer_sequence<int, i...>) {
  return requires { type{{any_field_at<i>{}}...}; };
}
/// Whether `type{value, ..., {}}` compiles with one value for each i and then `{}`.
template <class type, int... i> constexpr bool has_one_more(std::integer_sequence<int, i...>) {
  return requires { type{any_field_at<i>{}..., {}}; };
}

/// Converts to a base class of `type` and to nothing else.
template <class type> struct any_base {
  template <class base>
    requires(std::is_base_of_v<base, type> && !std::is_same_v<base, type>)
  operator base() const;
};
/// Whether `type`, an aggregate, has a base class; also true if the first field has a type to which every type
/// converts, such as std::any.
template <class type> constexpr bool has_base = requires { type{any_base<type>{}}; };

/// Converts to `real` and to no other type, so that it initializes only fields of type `real`.
template <class real> struct converts_only_to {
  template <class type>
    requires std::is_same_v<type, real>
  operator type() const;
};

/// Whether a struct is trivially copyable and consists only of values of type `real`, directly or in nested structs and
/// arrays.
template <class type, class real> constexpr bool is_made_of = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::is_trivially_copyable_v<type> && sizeof(type) % sizeof(real) == 0 && requires {
    type{(static_cast<void>(i), converts_only_to<real>{})...};
  };
}
(std::make_index_sequence<sizeof(type) / sizeof(real)>{});

/// The number of fields of a type; 0: no fields, more than twelve, a base class, not an aggregate, or a number that
/// cannot be found. Because of brace elision, a field that is an array counts as several fields. Inner braces prevent
/// this, but can fail for a class with converting constructors. Therefore, the number is known only if initialization
/// succeeds with and without inner braces, and fails with one more `{}`.
template <class type, int n = 12> constexpr int field_count() {
  if constexpr (!std::is_aggregate_v<type> || std::is_empty_v<type> || has_base<type> || n == 0) return 0;
  else if constexpr (has_fields<type>(std::make_integer_sequence<int, n + 1>{})) return 0;
  else if constexpr (has_fields<type>(std::make_integer_sequence<int, n>{}))
    return has_braced_fields<type>(std::make_integer_sequence<int, n>{}) &&
                   !has_one_more<type>(std::make_integer_sequence<int, n>{})
               ? n
               : 0;
  else return field_count<type, n - 1>();
}

/// Calls f(field, ...) once, with references to all fields of an aggregate with `count` fields, at most twelve; does
/// nothing if `count` is 0.
template <int count, class type, class function> constexpr void with_fields(type& a, function&& f) {
  if constexpr (count == 1) {
    auto& [b] = a;
    f(b);
  } else if constexpr (count == 2) {
    auto& [b, c] = a;
    f(b, c);
  } else if constexpr (count == 3) {
    auto& [b, c, d] = a;
    f(b, c, d);
  } else if constexpr (count == 4) {
    auto& [b, c, d, e] = a;
    f(b, c, d, e);
  } else if constexpr (count == 5) {
    auto& [b, c, d, e, g] = a;
    f(b, c, d, e, g);
  } else if constexpr (count == 6) {
    auto& [b, c, d, e, g, h] = a;
    f(b, c, d, e, g, h);
  } else if constexpr (count == 7) {
    auto& [b, c, d, e, g, h, i] = a;
    f(b, c, d, e, g, h, i);
  } else if constexpr (count == 8) {
    auto& [b, c, d, e, g, h, i, j] = a;
    f(b, c, d, e, g, h, i, j);
  } else if constexpr (count == 9) {
    auto& [b, c, d, e, g, h, i, j, k] = a;
    f(b, c, d, e, g, h, i, j, k);
  } else if constexpr (count == 10) {
    auto& [b, c, d, e, g, h, i, j, k, l] = a;
    f(b, c, d, e, g, h, i, j, k, l);
  } else if constexpr (count == 11) {
    auto& [b, c, d, e, g, h, i, j, k, l, m] = a;
    f(b, c, d, e, g, h, i, j, k, l, m);
  } else if constexpr (count == 12) {
    auto& [b, c, d, e, g, h, i, j, k, l, m, n] = a;
    f(b, c, d, e, g, h, i, j, k, l, m, n);
  }
}

/// Calls f(field) for every field of an aggregate with `count` fields, in order; does nothing if `count` is 0.
template <int count, class type, class function> constexpr void for_each_of_fields(type& a, function const& f) {
  with_fields<count>(a, [&](auto&... field) { (f(field), ...); });
}

/// Calls f(field) for every field of an aggregate, in order; does nothing if `field_count` is 0.
template <class type, class function> void for_each_field(type const& a, function const& f) {
  for_each_of_fields<field_count<type>()>(a, f);
}

} // namespace constrain::detail
