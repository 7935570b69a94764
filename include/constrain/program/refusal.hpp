#pragma once

#include "constrain/program/diagnosis.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// An op brings refusals of its own: a refusal is a member template with one static_assert, the error sentence.
//
//     struct split {
//       template <diagnosis d> struct parts_do_not_divide_the_width {
//         static_assert(d.ok(), "split: the width `expected` is not a multiple of `got` parts; choose other parts");
//       };
//       static constexpr inferred infer(operand_types const& in, options const& o) {
//         if (in[0].shape.features() % o.parts != 0)
//           return inferred::failure<parts_do_not_divide_the_width>(in[0].shape.features(), o.parts);
//
// A diagnosis is data and holds a refusal as an address. `own_refusal` maps the address back to the template, as
// `op_type` maps labels to ops.

namespace detail {

template <template <diagnosis> class sentence> inline constexpr refusal_label refusal_of{};

template <template <diagnosis> class sentence_template> struct held_sentence {
  template <diagnosis d> using sentence = sentence_template<d>;
};

#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1301
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
template <refusal_label const* label> struct refusal_key { friend constexpr auto sentence_at(refusal_key); };
template <template <diagnosis> class sentence> struct registered_refusal {
  friend constexpr auto sentence_at(refusal_key<&refusal_of<sentence>>) { return held_sentence<sentence>{}; }
};
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

/// The template that belongs to `d.refusal`, with its static_assert for `d`.
template <diagnosis d>
using own_refusal = typename decltype(sentence_at(detail::refusal_key<d.refusal>{}))::template sentence<d>;

} // namespace detail

/// A refusal as data, for `diagnosis::refusal`. `sentence` is a class template with one static_assert.
template <template <diagnosis> class sentence> constexpr refusal_label const* refusal_with() {
  static_assert(sizeof(detail::registered_refusal<sentence>) > 0); // the instantiation registers the refusal
  return &detail::refusal_of<sentence>;
}

} // namespace constrain
