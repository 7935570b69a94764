#pragma once

#include "constrain/run/checked.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/device/math.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The number of bytes from the first through the last element of an operand, including the gaps between its rows.
[[gnu::cold]] CONSTRAIN_INLINE std::int64_t reach(operand const& o, bound_operand const& b) {
  auto const features = o.shape.features();
  auto const gap_elements = b.row_stride == 0 ? 0 : (b.count / features - 1) * (b.row_stride - features);
  return (b.count + gap_elements) * size_of(o.type);
}

/// The number of elements before the first non-finite one; `n` if all `n` elements are finite.
[[gnu::cold]] CONSTRAIN_INLINE std::int64_t finite_elements(dtype type, std::byte const* elements, std::int64_t n) {
  return visit_real(type, [&]<class real>(real) {
    std::int64_t i = 0;
    while (i < n && math::finite(arithmetic<real>(reinterpret_cast<real const*>(elements)[i]))) ++i;
    return i;
  });
}

/// The part of an error's text about bytes that have the tag `found_tag` but should have the tag `expected_tag`.
[[gnu::cold]] CONSTRAIN_INLINE std::string contents_text(std::uint64_t found_tag, std::uint64_t expected_tag) {
  if (found_tag == 0) return "no call of this run has written its bytes";
  bool const same_value = found_tag >> 40 == expected_tag >> 40;
  return concat({"its bytes hold value %", (found_tag >> 40) - 1, same_value ? " of another iteration" : ""});
}

/// Throws the `error` for a plan step that writes NaN or infinity. `o`: the output. `element`: the index in `o` of the
/// first element that is not finite.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void refuse_element(int index, step const& s, operand const& o,
                                                             std::int64_t element) {
  throw error({"checked mode: plan step ", index, " (", s.op->name, ") writes a non-finite value to element ", element,
               " of value %", o.value, "; check the inputs of this plan step or, in training, lower the learning rate",
               o.type == dtype::f16 ? ", or train in bf16, because the largest finite number of fp16 is 65504" : ""});
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE checked_hooks::checked_hooks(arena const& memory, operand const* operands,
                                                            checked_value const* values, bool may_overflow)
    : memory_(memory), operands_(operands), values_(values), may_overflow_(may_overflow),
      tags_(static_cast<std::size_t>(memory.size().count() / block + 1)) {}

[[gnu::cold]] CONSTRAIN_INLINE void checked_hooks::wrote(host_view const& view) {
  if (view.elements == 0) return;
  auto const end = view.offset + view.elements * size_of(view.type);
  for (auto b = view.offset / block; b * block < end; ++b) tags_[static_cast<std::size_t>(b)] = host_tag;
}

[[gnu::cold]] CONSTRAIN_INLINE void checked_hooks::before(int index, step const& s, bound_operand const* bound,
                                                          loop_state const& loops) {
  for (int k = 0; k < s.inputs; ++k) {
    auto const& o = operands_[s.first_operand + k];
    auto const& value = values_[o.value];
    check_bounds(index, s, o, bound[k]);
    if (value.persistent) continue;
    auto const expected_tag = tag(o, value, loops);
    auto const begin = bound[k].data - memory_.data();
    auto const bytes = detail::reach(o, bound[k]);
    for (auto b = begin / block; b * block < begin + bytes; ++b) {
      auto const found_tag = tags_[static_cast<std::size_t>(b)];
      if (found_tag == expected_tag || found_tag == host_tag) continue;
      throw error({"checked mode: plan step ", index, " (", s.op->name, ") reads value %", o.value, ", but ",
                   detail::contents_text(found_tag, expected_tag),
                   "; this is a bug in a pass: report it with the model, or correct the pass if it is yours"});
    }
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void checked_hooks::after(int index, step const& s, bound_operand const* bound,
                                                         loop_state const& loops) {
  for (int k = s.inputs; k < s.inputs + s.outputs; ++k) {
    auto const& o = operands_[s.first_operand + k];
    check_bounds(index, s, o, bound[k]);
    auto const begin = bound[k].data - memory_.data();
    auto const bytes = detail::reach(o, bound[k]);
    auto const new_tag = tag(o, values_[o.value], loops);
    for (auto b = begin / block; b * block < begin + bytes; ++b) tags_[static_cast<std::size_t>(b)] = new_tag;
    auto const& value = values_[values_[o.value].tagged_as];
    if ((k == s.inputs || value.kept_copy) && !(may_overflow_ && value.scaled)) check_finite(index, s, o, bound[k]);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE std::uint64_t checked_hooks::tag(operand const& o, checked_value const& value,
                                                                loop_state const& loops) const {
  std::uint64_t iterations = 0;
  // The step of the FNV-1 hash, with integers instead of bytes, cut to 40 bits.
  auto const mix = [&](std::int64_t index) {
    iterations = (iterations * 0x100000001B3ull ^ static_cast<std::uint64_t>(index + 1)) & 0xFFFFFFFFFFull;
  };
  if (!value.covers_all_iterations)
    for (int axis : value.axes) mix(loops.index[axis]);
  if (value.loop_carried_axis >= 0) mix(o.position + loops.sum(o.position_factors));
  return static_cast<std::uint64_t>(value.tagged_as + 1) << 40 | iterations;
}

[[gnu::cold]] CONSTRAIN_INLINE void checked_hooks::check_bounds(int index, step const& s, operand const& o,
                                                                bound_operand const& b) const {
  auto const begin = b.data - memory_.data();
  if (begin < 0 || begin + detail::reach(o, b) > memory_.size().count())
    throw error({"checked mode: plan step ", index, " (", s.op->name, ") accesses bytes outside the arena of ",
                 memory_.size().count(),
                 " bytes; this is a bug in a pass: report it with the model, or correct the pass if it is yours"});
}

[[gnu::cold]] CONSTRAIN_INLINE void checked_hooks::check_finite(int index, step const& s, operand const& o,
                                                                bound_operand const& b) const {
  if (!is_real(o.type)) return;
  alignas(double) std::byte elements[4096];
  auto const capacity = std::ssize(elements) / size_of(o.type);
  auto const row_length = b.row_stride == 0 ? b.count : o.shape.features();
  for (std::int64_t first = 0; first < b.count;) {
    auto const n = std::min(capacity, row_length - first % row_length);
    auto const offset = first / row_length * b.row_stride + first % row_length;
    memory_.read(b.data - memory_.data() + offset * size_of(o.type), elements, n * size_of(o.type));
    auto const finite = detail::finite_elements(o.type, elements, n);
    if (finite < n) detail::refuse_element(index, s, o, first + finite);
    first += n;
  }
}

} // namespace constrain
