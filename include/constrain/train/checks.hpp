#pragma once

#include "constrain/program/number_check.hpp"
#include "constrain/train/run_options.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

// Every number of a run is looked at when it is given: a mistake in one is better known then than after hours, in which a
// NaN destroys the weights without a word.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

inline void check_schedule(schedule::any const& s) {
  constexpr char const* owners[] = {"schedule::constant", "schedule::linear", "schedule::cosine"};
  auto const* const owner = owners[s.index()];
  std::visit(
      [&](auto const& chosen) {
        check_count(owner, ".warmup", chosen.warmup.count(), 0);
        if constexpr (requires { chosen.minimum; }) {
          check_count(owner, ".steps", chosen.steps.count(), 1);
          check_number(owner, ".minimum", chosen.minimum, number_range::from_zero);
        }
      },
      s);
}

/// Throws `error`, naming the field, unless a run can go by these.
[[gnu::noinline]] inline run_options const& checked(run_options const& o) {
  check_number("run_options", ".clip_norm", o.clip_norm, number_range::from_zero);
  check_number("run_options", ".dropout", o.dropout, number_range::below_one);
  check_schedule(o.schedule);
  return o;
}

/// Converts to `real` alone, so that it initialises fields of that type and no others.
template <class real> struct only {
  template <class type>
    requires std::is_same_v<type, real>
  operator type() const;
};

/// Whether a struct is so many fields of one type, nested ones counted through, and nothing else.
template <class type, class real> constexpr bool is_made_of = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::is_trivially_copyable_v<type> && sizeof(type) % sizeof(real) == 0 && requires { type{(static_cast<void>(i), only<real>{})...}; };
}(std::make_index_sequence<sizeof(type) / sizeof(real)>{});

template <class real, class hyper> void check_all_finite(char const* owner, hyper const& h) {
  auto const fields = std::bit_cast<std::array<real, sizeof(hyper) / sizeof(real)>>(h);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!is_finite(static_cast<double>(fields[i])))
      check_number(owner, ("field " + std::to_string(i + 1) + " of hyper").c_str(), static_cast<double>(fields[i]), number_range::finite);
}

/// Throws `error` unless an optimizer's numbers are finite, as far as they can be told apart (fields of names in use; all,
/// where all are of one type), and the optimizer itself has nothing against them.
template <class optimizer> typename optimizer::hyper const& checked_hyper(typename optimizer::hyper const& h, std::string const& name) {
  if constexpr (requires { optimizer::check(h); }) optimizer::check(h);
  [[maybe_unused]] auto const finite = [&](char const* field, auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      check_number(name.c_str(), field, static_cast<double>(value), number_range::finite);
  };
  if constexpr (requires { h.learning_rate; }) finite(".learning_rate", h.learning_rate);
  if constexpr (requires { h.weight_decay; }) finite(".weight_decay", h.weight_decay);
  if constexpr (requires { h.momentum; }) finite(".momentum", h.momentum);
  if constexpr (requires { h.beta1; }) finite(".beta1", h.beta1);
  if constexpr (requires { h.beta2; }) finite(".beta2", h.beta2);
  if constexpr (requires { h.epsilon; }) finite(".epsilon", h.epsilon);
  if constexpr (is_made_of<typename optimizer::hyper, float>) check_all_finite<float>(name.c_str(), h);
  else if constexpr (is_made_of<typename optimizer::hyper, double>) check_all_finite<double>(name.c_str(), h);
  return h;
}

} // namespace constrain::detail
