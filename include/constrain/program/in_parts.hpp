#pragma once

#include "constrain/program/refusal.hpp"
#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace refusals {

/// ct::in_parts is called for a value that is not a parameter.
template <diagnosis d> struct value_is_not_a_parameter {
  static_assert(d.ok(), "ct::in_parts: the value is not a parameter; pass the result of ct::parameter");
};

/// The parts lie along dimension `got`, which a parameter with `expected` dimensions does not have.
template <diagnosis d> struct no_such_dimension_of_parts {
  static_assert(d.ok(), "ct::in_parts: the parameter has `expected` dimensions, but its parts lie along dimension "
                        "`got`; give one of its dimensions, which are numbered from 0, the outermost");
};

/// There are too many parts, an extent is below 1, or the extents do not add up to the parameter's extent, `expected`.
template <diagnosis d> struct parts_do_not_fit {
  static_assert(d.ok(), "the parts of a parameter (ct::in_parts, or `parts` of a layer) do not fit its extent, "
                        "`expected`; give at most eight parts, each with an extent of at least 1, whose extents add "
                        "up to `expected` (`got` is the sum of the first eight extents, or of those before the first "
                        "that is below 1 or above `expected`)");
};

} // namespace refusals

namespace detail {

/// The error if `parameter` cannot have these parts along `dimension`; otherwise no error. `line`: the source line of
/// the call to `in_parts`.
constexpr diagnosis check_parts(value parameter, part_list const& parts, int dimension, int line) {
  auto const& info = parameter.info();
  int const called_from = parameter.owner().called_from, rank = info.shape.rank;
  if (!is_parameter(info.role)) return diagnosis_with<refusals::value_is_not_a_parameter>(line, called_from);
  if (dimension < 0 || dimension >= rank)
    return diagnosis_with<refusals::no_such_dimension_of_parts>(line, called_from, rank, dimension);
  auto const full_extent = info.shape.extent[dimension];
  std::int64_t sum = 0;
  bool fits = true;
  for (auto extent : parts.extents) {
    fits = fits && extent >= 1 && extent <= full_extent;
    if (fits) sum += extent;
  }
  if (!fits || parts.too_many || sum != full_extent)
    return diagnosis_with<refusals::parts_do_not_fit>(line, called_from, full_extent, sum);
  return {};
}

} // namespace detail

/// Declares that a parameter holds several tensors one after the other along `dimension` (0: the outermost), and
/// returns the parameter. The update rule of an optimizer is called once for each part or, if the optimizer wraps
/// another one, once for the full parameter (op/update/update_rule.hpp). Muon orthogonalizes each part.
/// `parallel::tensor` divides each part separately. The parameter is still one tensor in `parameters()`, in saved
/// weights and in files of other programs. Element-wise optimizers ignore parts. An empty `parts` changes nothing. A
/// second call for the same parameter replaces its parts. Refused: a value that is not a parameter, a dimension that
/// the parameter does not have, more than eight parts, extents that are below 1 or do not add up to the extent of the
/// parameter, and more than 16 different lists of parts in a model. With `parallel::tensor`, the lists of one rank's
/// ranges count too.
///
///     auto const w = ct::in_parts(ct::parameter(x, "qkv", ct::shape(12, 8), ct::role::weight), {8, 2, 2});
constexpr value in_parts(value parameter, part_list parts, int dimension = 0, int line = __builtin_LINE()) {
  auto& program = parameter.owner().program;
  if (!program.failure.ok() || parts.extents.empty()) return parameter;
  auto const failure = detail::check_parts(parameter, parts, dimension, line);
  program.fail(failure);
  if (!failure.ok()) return parameter;
  parts.dimension = dimension;
  program.values[parameter.where().value].parts = program.add_parts(parts);
  return parameter;
}

} // namespace constrain
