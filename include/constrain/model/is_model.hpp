#pragma once

#include "constrain/model/port_list.hpp"
#include "constrain/program/value.hpp"

#include <cstddef>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

// This is a struct, because nvcc would replace an alias with `value` and then find no parameter pack to expand.
template <std::size_t> struct nth_value { using type = value; };

template <class type, class indices> inline constexpr bool makes_a_value = false;
template <class type, std::size_t... i>
inline constexpr bool makes_a_value<type, std::index_sequence<i...>> =
    std::is_invocable_r_v<value, type const&, typename nth_value<i>::type...>;

/// Whether `type` is a function of `count` values that returns a value.
template <class type, int count>
inline constexpr bool takes_values = makes_a_value<type, std::make_index_sequence<std::size_t{count}>>;

template <class type, class counts> inline constexpr bool takes_count_in = false;
template <class type, int... i>
inline constexpr bool takes_count_in<type, std::integer_sequence<int, i...>> = (takes_values<type, i + 1> || ...);

/// Whether `type` is a function of at least one and at most `maximum_ports` values that returns a value.
template <class type>
inline constexpr bool takes_any_count = takes_count_in<type, std::make_integer_sequence<int, maximum_ports>>;

} // namespace detail

/// A model: a constexpr function on values, from tokens [sequences, tokens] to logits, usually [sequences, tokens,
/// classes] or [sequences, classes]. A value (ct::value) represents a tensor of the program that is being built. Layers
/// are functions on values too, from any shape to any shape.
///
///     constexpr ct::value operator()(ct::value tokens) const;
///
/// The model's fields are its configuration. They are public, so that a model can be a template argument. Optional:
///
///     int context; // maximum tokens of a sequence or, if packed, of a document; default of `micro_batch::tokens`
///
/// A model whose inputs are not just one array of tokens lists them in a member `inputs`: at most `maximum_ports`, in
/// the order of the function's parameters. If the list depends on the fields, a member function `inputs` returns it.
///
///     static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
///     constexpr ct::value operator()(ct::value tokens, ct::value lengths) const;
template <class type>
concept is_model = detail::takes_values<type, 1> ||(detail::lists_inputs<type>&& detail::takes_any_count<type>);

} // namespace constrain
