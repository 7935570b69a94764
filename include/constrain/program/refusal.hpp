#pragma once

#include "constrain/program/diagnosis.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// A refusal is a compile-time error about a program: a class template with one static_assert, whose message is the
// error. Most are defined next to the code that finds the error, for example in an op or a layer. The other refusals
// are in op/refusals.hpp, model/refusals.hpp, pass/refusals.hpp and sound.hpp.
//
//     struct split {
//       template <diagnosis d> struct parts_do_not_divide_the_width {
//         static_assert(d.ok(), "split: the number of parts, `got`, does not divide the width, `expected`; choose "
//                               "another number of parts");
//       };
//       static constexpr inferred infer(operand_types const& in, options const& o) {
//         if (in[0].shape.features() % o.parts != 0)
//           return inferred::failure<parts_do_not_divide_the_width>(in[0].shape.features(), o.parts);
//
// A `diagnosis` is a template argument and cannot hold a template, so it holds the address of `refusal_of<template>`.
// `own_refusal` maps the address back to the template, as `op_type` maps labels to ops (friend injection).

namespace detail {

/// The object whose address identifies a refusal.
template <template <diagnosis> class refusal_template> inline constexpr refusal_label refusal_of{};

/// A refusal's template as a type.
template <template <diagnosis> class refusal_template> struct refusal_type {
  template <diagnosis d> using refusal = refusal_template<d>;
};

// The friend is a non-template function on purpose: silence the compilers' warning.
#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1301
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
template <refusal_label const* label> struct refusal_key { friend constexpr auto refusal_at(refusal_key); };
template <template <diagnosis> class refusal_template> struct registered_refusal {
  friend constexpr auto refusal_at(refusal_key<&refusal_of<refusal_template>>) {
    return refusal_type<refusal_template>{};
  }
};
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

/// The refusal that `d.refusal` identifies, instantiated with `d`; its static_assert fails unless `d.ok()`.
template <diagnosis d>
using own_refusal = typename decltype(refusal_at(detail::refusal_key<d.refusal>{}))::template refusal<d>;

} // namespace detail

/// The address that identifies a refusal in `diagnosis::refusal`. Also registers the refusal for `own_refusal`.
template <template <diagnosis> class refusal_template> constexpr refusal_label const* refusal_with() {
  static_assert(sizeof(detail::registered_refusal<refusal_template>) > 0); // the instantiation registers the refusal
  return &detail::refusal_of<refusal_template>;
}

/// The diagnosis of a refusal. The arguments are the fields of the same names. In `infer`, ops use `inferred::failure`
/// instead.
template <template <diagnosis> class refusal_template>
constexpr diagnosis diagnosis_with(int line = 0, int called_from = 0, std::int64_t expected = 0, std::int64_t got = 0) {
  return {why::refused, line, called_from, expected, got, refusal_with<refusal_template>()};
}

} // namespace constrain
