#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/fields.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Calls f("field i of <of>", value), i = 1, 2, ..., for each value of a struct that consists only of `real`.
template <class real, class hyper, class function>
[[gnu::noinline, gnu::cold]] void for_each_position(hyper const& h, function const& f, std::string const& of) {
  auto const fields = std::bit_cast<std::array<real, sizeof(hyper) / sizeof(real)>>(h);
  for (std::size_t i = 0; i < fields.size(); ++i) f(concat({"field ", i + 1, " of ", of}), fields[i]);
}

/// The learning rate of an optimizer or, if it has none, of the optimizer that it wraps; 0 if neither has one.
template <class hyper> double learning_rate_of(hyper const& h) {
  if constexpr (requires { h.learning_rate; }) return static_cast<double>(h.learning_rate);
  else if constexpr (requires { h.base; }) return detail::learning_rate_of(h.base);
  else return 0;
}

/// The product of a learning rate, the schedule's factor and the factor of `scale_learning_rate`. Throws `error` if the
/// product is not finite or its absolute value exceeds `maximum`.
double scaled_learning_rate(double rate, double schedule, double factor, double maximum);

/// Multiplies the learning rates of an optimizer, and of the optimizers that it wraps, by `schedule` and by `factor`,
/// in this order. Throws `error` if a learning rate would not be finite in its type.
template <class hyper> void scale_learning_rates(hyper& h, double schedule, double factor) {
  if constexpr (requires { h.learning_rate; }) {
    using rate = decltype(h.learning_rate);
    constexpr double maximum = std::is_same_v<rate, float> ? static_cast<double>(std::numeric_limits<float>::max())
                                                           : std::numeric_limits<double>::max();
    h.learning_rate =
        static_cast<rate>(scaled_learning_rate(static_cast<double>(h.learning_rate), schedule, factor, maximum));
  }
  if constexpr (requires { h.base; }) detail::scale_learning_rates(h.base, schedule, factor);
}

/// Sets the learning rates of an optimizer and of the optimizers that it wraps.
template <class hyper> void set_learning_rates(hyper& h, double rate) {
  if constexpr (requires { h.learning_rate; }) h.learning_rate = static_cast<decltype(h.learning_rate)>(rate);
  if constexpr (requires { h.base; }) detail::set_learning_rates(h.base, rate);
}

/// Calls f(name, value) if the field has an arithmetic or enumeration type; an enumeration is passed as int. Skips all
/// other fields: a pointer, or an array that converts to one, would differ between ranks.
template <class field, class function>
void visit_number(std::string const& name, field const& value, function const& f) {
  if constexpr (std::is_enum_v<field>) f(name, static_cast<int>(value));
  else if constexpr (std::is_arithmetic_v<field>) f(name, value);
}

/// The address of the field `base`; null if there is no such field.
template <class hyper> void const* address_of_base(hyper const& h) {
  if constexpr (requires { h.base; }) return &h.base;
  else return nullptr;
}

/// Calls f(name, value) for an optimizer's hyperparameters: first for fields with a well-known name, then for every
/// field by its position. Visits only fields of arithmetic or enumeration type (`visit_number`). If all values are
/// float, or all are double, visits each value by position. Otherwise visits no field by position if `field_count` is
/// 0, for example because the struct has more than twelve fields, an array or a base class. If a field visited by
/// position is itself an aggregate, its fields are visited in the same way. The fields of the wrapped optimizer follow
/// in the same way, with " of the base" after their names. `name`: text such as ".beta1", "field 3 of hyper" or ".beta1
/// of field 3 of hyper". `of`: the text for `h` itself in the names.
template <class hyper, class function>
[[gnu::noinline, gnu::cold]] void for_each_hyperparameter(hyper const& h, function const& f,
                                                          std::string const& of = "hyper") {
  [[maybe_unused]] auto const visit = [&](char const* name, auto const& value) {
    detail::visit_number(of == "hyper" ? name : concat({name, " of ", of}), value, f);
  };
  if constexpr (requires { h.learning_rate; }) visit(".learning_rate", h.learning_rate);
  if constexpr (requires { h.weight_decay; }) visit(".weight_decay", h.weight_decay);
  if constexpr (requires { h.momentum; }) visit(".momentum", h.momentum);
  if constexpr (requires { h.beta1; }) visit(".beta1", h.beta1);
  if constexpr (requires { h.beta2; }) visit(".beta2", h.beta2);
  if constexpr (requires { h.epsilon; }) visit(".epsilon", h.epsilon);
  if constexpr (is_made_of<hyper, float>) for_each_position<float>(h, f, of);
  else if constexpr (is_made_of<hyper, double>) for_each_position<double>(h, f, of);
  else {
    int position = 0;
    detail::for_each_field(h, [&]<class field>(field const& value) {
      auto const name = concat({"field ", ++position, " of ", of});
      if constexpr (!std::is_class_v<field> || !std::is_aggregate_v<field>) detail::visit_number(name, value, f);
      else if (&value != detail::address_of_base(h)) detail::for_each_hyperparameter(value, f, name);
    });
  }
  if constexpr (requires { h.base; })
    detail::for_each_hyperparameter(
        h.base,
        [&](std::string const& field, auto value) {
          f(concat({field, " of the base"}), value);
        },
        of);
}

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/hyperparameters.ipp"
#endif
