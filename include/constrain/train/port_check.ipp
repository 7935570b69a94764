#pragma once

#include "constrain/train/port_check.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Number of elements that are checked without a branch, so that the compiler can vectorize the check.
inline constexpr std::size_t check_block = 64;

/// Returns a bound: an int32 is in [0, limit) if and only if its value, cast to unsigned, is below the bound.
constexpr std::uint32_t unsigned_limit(std::int64_t limit) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit, 0, std::int64_t{1} << 31));
}

/// Index of the first element outside [0, limit); the number of elements if all are inside.
CONSTRAIN_INLINE std::size_t first_outside(std::span<std::int32_t const> values, std::int64_t limit) {
  auto const bound = unsigned_limit(limit);
  std::size_t i = 0;
  for (; i + check_block <= values.size(); i += check_block) {
    std::uint32_t any_outside = 0;
    for (std::size_t k = 0; k < check_block; ++k)
      any_outside |= static_cast<std::uint32_t>(values[i + k]) >= bound ? 1u : 0u;
    if (any_outside != 0) break;
  }
  while (i < values.size() && static_cast<std::uint32_t>(values[i]) < bound) ++i;
  return i;
}

/// The result of `scan_labels`.
struct label_scan {
  std::size_t first_outside = 0; // index of the first label neither in [0, limit) nor ignored; number of labels if none
  std::int64_t valid = 0;        // number of labels before that label that are not ignored
};
/// Finds the first label that is neither in [0, limit) nor `ignored_label`.
CONSTRAIN_INLINE label_scan scan_labels(std::span<std::int32_t const> labels, std::int64_t limit) {
  auto const bound = unsigned_limit(limit);
  label_scan scan;
  auto& i = scan.first_outside;
  for (; i + check_block <= labels.size(); i += check_block) {
    std::uint32_t any_outside = 0, valid_in_block = 0;
    for (std::size_t k = 0; k < check_block; ++k) {
      auto const label = labels[i + k];
      std::uint32_t const is_valid = label != ignored_label ? 1u : 0u;
      any_outside |= is_valid & (static_cast<std::uint32_t>(label) >= bound ? 1u : 0u);
      valid_in_block += is_valid;
    }
    if (any_outside != 0) break;
    scan.valid += valid_in_block;
  }
  for (; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) continue;
    if (static_cast<std::uint32_t>(labels[i]) >= bound) break;
    ++scan.valid;
  }
  return scan;
}

CONSTRAIN_INLINE void check_tokens(char const* caller, std::span<std::int32_t const> tokens, std::int64_t limit) {
  auto const i = first_outside(tokens, limit);
  if (i < tokens.size())
    throw error({caller, ": token ", tokens[i], " at index ", i, " is outside the vocabulary of ", limit,
                 "; pass tokens from 0 to ", limit - 1});
}

CONSTRAIN_INLINE std::int64_t count_labels(char const* caller, std::span<std::int32_t const> labels,
                                           std::int64_t limit) {
  auto const scan = scan_labels(labels, limit);
  if (auto const i = scan.first_outside; i < labels.size())
    throw error({caller, ": label ", labels[i], " at index ", i, " is outside the ", counted(limit, "class"),
                 "; pass labels from 0 to ", limit - 1, ", or ", ignored_label, " to ignore one"});
  return scan.valid;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string name_in_errors(plan_port const& port) {
  return concat({port.kind == port_kind::input ? "the input \"" : "the label \"", port.spec.name, "\""});
}

/// Whether a port is the default input ("tokens") or the default label ("labels"), for which errors are shorter.
CONSTRAIN_INLINE bool is_plain(plan_port const& port) {
  return port.spec.type == port_type::ids &&
         port.spec.name == std::string_view(port.kind == port_kind::input ? "tokens" : "labels");
}

/// The exclusive upper bound of a port's labels: the port's limit, or 2^31 if the port has none.
constexpr std::int64_t limit_of(plan_port const& port) { return port.limit > 0 ? port.limit : std::int64_t{1} << 31; }

/// `scan_labels` for the labels of a port. If the port's labels cannot be ignored, `ignored_label` is out of range.
CONSTRAIN_INLINE label_scan scan_labels(plan_port const& port, std::span<std::int32_t const> labels) {
  if (port.ignorable) return scan_labels(labels, limit_of(port));
  auto const i = first_outside(labels, limit_of(port));
  return {i, static_cast<std::int64_t>(i)};
}

[[gnu::cold]] CONSTRAIN_INLINE std::string why_refused(plan_port const& port, std::int32_t value) {
  std::string text = ", below 0";
  if (port.kind == port_kind::label && value == ignored_label)
    text = ", but an op indexes by it, so it cannot be ignored";
  else if (port.limit > 0) text = concat({", outside [0, ", port.limit, ")"});
  text += "; pass integers from 0";
  if (port.limit > 0) text += concat({" to ", port.limit - 1});
  if (port.ignorable) text += concat({", or ", ignored_label, " to ignore one"});
  return text;
}

[[gnu::cold]] CONSTRAIN_INLINE void check_types(char const* caller, plan_ports ports, port_kind kind,
                                                array_list const& arrays) {
  std::string names;
  std::size_t count = 0;
  for (auto const& port : ports)
    if (port.kind == kind) names += concat({count++ == 0 ? "" : ", ", port.spec.name});
  if (arrays.size() != count && !(arrays.size() == 0 && count == 1))
    throw error({caller, ": ", counted(arrays.size(), kind == port_kind::input ? "input" : "label"),
                 arrays.size() == 1 ? " was" : " were", " given, but the ",
                 kind == port_kind::input ? "model" : "objective", " takes ", count, " (", names,
                 "); pass a list of one array for each, {", names, "}"});
  std::size_t i = 0;
  for (auto const& port : ports) {
    if (port.kind != kind) continue;
    auto const array = arrays[i++];
    bool const wants_ids = port.spec.type == port_type::ids;
    if (array.size() != 0 && wants_ids != (array.type() == dtype::i32))
      throw error({caller, ": ", name_in_errors(port),
                   wants_ids ? " must hold integers" : " must hold floating-point numbers",
                   ", but the array given for it has elements of type ",
                   array.type() == dtype::i32   ? "std::int32_t"
                   : array.type() == dtype::f32 ? "float"
                                                : "double",
                   wants_ids ? "; pass an array of std::int32_t" : "; pass an array of float or double"});
  }
}

/// The dimensions of a port's array, as text for an error. For `per::row`, the dimensions of an input with one entry
/// per row, without its features, or, if there is no such input, "the dimensions of the logits without the last".
[[gnu::cold]] CONSTRAIN_INLINE std::string shape_text(plan_ports ports, plan_port const& port, char const* outer) {
  auto each = port.spec.each;
  if (each == per::logit) return concat({"[", outer, "the dimensions of the logits]"});
  for (auto const& other : ports) {
    auto const entries = other.elements / std::max<std::int64_t>(other.spec.features, 1);
    if (each == per::row && other.kind == port_kind::input && entries == port.elements) each = other.spec.each;
  }
  if (each == per::row) return concat({"[", outer, "the dimensions of the logits without the last]"});
  auto const features = port.spec.features > 0 ? concat({", ", port.spec.features}) : std::string();
  return concat({"[", outer, each == per::token ? "sequences, tokens" : "sequences", features, "]"});
}

[[gnu::cold]] CONSTRAIN_INLINE void check_lengths(char const* caller, plan_ports ports, port_kind kind,
                                                  array_list const& arrays, char const* outer) {
  check_types(caller, ports, kind, arrays);
  std::size_t i = 0;
  for (auto const& port : ports) {
    if (port.kind != kind) continue;
    auto const size = arrays[i++].size();
    if (size == static_cast<std::size_t>(port.elements)) continue;
    auto const name = !is_plain(port)            ? name_in_errors(port)
                      : kind == port_kind::input ? "the array of inputs"
                                                 : "the array of labels";
    throw error({caller, ": ", name, " has ", counted(size, "element"), ", but must have ", port.elements, " (",
                 shape_text(ports, port, outer), "); pass an array of that length"});
  }
}

/// The largest finite value of a floating-point type, and the smallest double that converts to infinity in this type. A
/// conversion to a type narrower than float rounds to float first.
struct float_range {
  double maximum = std::numeric_limits<double>::max();
  double infinite = std::numeric_limits<double>::infinity();
};
/// The range of a floating-point type. A number becomes infinite if it is at least halfway from the maximum to the next
/// power of two. For f16 and bf16, this bound is half an ulp of float lower, because the number rounds to float first.
constexpr float_range range_of(dtype type) {
  switch (type) {
  case dtype::f16: return {65504, 65520 - 0x1p-9};
  case dtype::bf16: return {0x1.FEp127, 0x1.FFp127 - 0x1p103};
  case dtype::f32: return {0x1.FFFFFEp127, 0x1.FFFFFFp127};
  default: return {};
  }
}

/// The range of the floating-point numbers that a port accepts: all finite numbers if no node reads the port's array.
constexpr float_range range_of(plan_port const& port) {
  return port.view.elements > 0 ? range_of(port.view.type) : float_range{};
}

/// The index of the first number that is not finite, or that becomes infinite in the port's type; the number of
/// elements if no number does.
template <class real> [[gnu::cold]] std::size_t first_not_finite(plan_port const& port, array_view const& array) {
  auto const* const values = typed_data<real>(array);
  auto const infinite = range_of(port).infinite;
  std::size_t i = 0;
  while (i < array.size() && is_finite(static_cast<double>(values[i])) &&
         std::abs(static_cast<double>(values[i])) < infinite)
    ++i;
  return i;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string why_refused(plan_port const& port, double value,
                                                       std::string const& position) {
  if (!is_finite(value))
    return concat({" is not finite at ", position, "; pass finite numbers, for example 0 where a value is missing"});
  return concat({" is ", number_text(value), " at ", position, ", but ", name_of(port.view.type),
                 " holds only magnitudes up to ", number_text(range_of(port).maximum),
                 "; pass smaller magnitudes, for example numbers divided by their standard deviation"});
}

/// Throws `error` unless all numbers are finite, and stay finite when converted to the port's type.
template <class real>
[[gnu::cold]] void check_reals(char const* caller, plan_port const& port, array_view const& values) {
  auto const i = first_not_finite<real>(port, values);
  if (i == values.size()) return;
  throw error({caller, ": ", name_in_errors(port),
               why_refused(port, static_cast<double>(typed_data<real>(values)[i]), concat({"index ", i}))});
}

CONSTRAIN_INLINE std::size_t first_invalid(plan_port const& port, array_view values) {
  if (values.type() == dtype::f32) return first_not_finite<float>(port, values);
  if (values.type() == dtype::f64) return first_not_finite<double>(port, values);
  if (port.kind == port_kind::label) return scan_labels(port, values.integers()).first_outside;
  // Without a limit, any integer is a valid input.
  return port.limit == 0 ? values.size() : first_outside(values.integers(), port.limit);
}

CONSTRAIN_INLINE std::int64_t check_values(char const* caller, plan_port const& port, array_view values) {
  auto const count = static_cast<std::int64_t>(values.size());
  if (values.type() == dtype::f32) return check_reals<float>(caller, port, values), count;
  if (values.type() == dtype::f64) return check_reals<double>(caller, port, values), count;
  auto const integers = values.integers();
  auto const refuse = [&](std::size_t i) {
    throw error(
        {caller, ": ", name_in_errors(port), " is ", integers[i], " at index ", i, why_refused(port, integers[i])});
  };
  if (port.kind == port_kind::label) {
    if (is_plain(port) && port.limit > 0 && port.ignorable) return count_labels(caller, integers, port.limit);
    auto const scan = scan_labels(port, integers);
    if (scan.first_outside < integers.size()) refuse(scan.first_outside);
    return scan.valid;
  }
  // Without a limit, any integer is a valid input.
  if (port.limit == 0) return count;
  if (is_plain(port)) return check_tokens(caller, integers, port.limit), count;
  if (auto const i = first_outside(integers, port.limit); i < integers.size()) refuse(i);
  return count;
}

CONSTRAIN_INLINE std::int64_t check_all_values(char const* caller, plan_ports ports, port_kind kind,
                                               array_list const& arrays) {
  std::int64_t first = 0;
  std::size_t i = 0;
  for (auto const& port : ports) {
    if (port.kind != kind) continue;
    auto const count = check_values(caller, port, arrays[i]);
    if (i++ == 0) first = count;
  }
  return first;
}

/// Throws the error for an array that holds more or fewer than `micro_batches` micro-batches, the number in the first
/// array.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void refuse_count(plan_port const& port, std::size_t size,
                                                           std::size_t micro_batches) {
  auto const needed = micro_batches * static_cast<std::size_t>(port.elements);
  bool const plain_label = is_plain(port) && port.kind == port_kind::label;
  throw error(
      {"evaluate: ", plain_label ? "the array of labels" : name_in_errors(port), " has ", counted(size, "element"),
       ", but must have ", needed, " for the inputs' ", counted(micro_batches, "micro-batch"), "; pass ", needed,
       plain_label && port.ignorable ? concat({", with ", ignored_label, " where an input has no label"}) : ""});
}

[[gnu::cold]] CONSTRAIN_INLINE std::size_t count_micro_batches(plan_ports ports, bool pads, array_list const& inputs,
                                                               array_list const& labels) {
  check_types("evaluate", ports, port_kind::input, inputs);
  check_types("evaluate", ports, port_kind::label, labels);
  std::size_t micro_batches = 0, next_input = 0, next_label = 0;
  for (auto const& port : ports) {
    if (port.kind == port_kind::result) continue;
    auto const size = port.kind == port_kind::input ? inputs[next_input++].size() : labels[next_label++].size();
    auto const micro_batch_elements = static_cast<std::size_t>(port.elements);
    if (micro_batches == 0) {
      micro_batches = size / micro_batch_elements;
      if (micro_batches != 0 && size % micro_batch_elements == 0) continue;
      pads = pads && is_plain(port) && std::all_of(ports.begin(), ports.end(), [](plan_port const& p) {
               return p.kind != port_kind::label || p.ignorable;
             });
      throw error({"evaluate: ", is_plain(port) ? "the array of inputs" : name_in_errors(port), " has ",
                   counted(size, "element"), ", but must have a positive multiple of the micro-batch's ",
                   micro_batch_elements, "; pass complete micro-batches",
                   pads ? ", the last one padded with any token and ignored labels" : ""});
    }
    if (size != micro_batches * micro_batch_elements) refuse_count(port, size, micro_batches);
  }
  return micro_batches;
}

CONSTRAIN_INLINE void check_shifted(char const* caller, std::span<std::int32_t const> inputs,
                                    std::span<std::int32_t const> labels, std::int64_t tokens) {
  auto const matches = [](std::int32_t input, std::int32_t label) { return label == ignored_label || label == input; };
  if (inputs.empty() || !std::equal(inputs.begin(), inputs.end(), labels.begin(), labels.end(), matches)) return;
  auto const sequence_length = static_cast<std::size_t>(tokens);
  auto const is_valid = [&](std::size_t i) { return labels[i] != ignored_label; };
  for (std::size_t i = 0; i + 1 < inputs.size(); ++i)
    if ((i + 1) % sequence_length != 0 && inputs[i] != inputs[i + 1] && is_valid(i) && is_valid(i + 1))
      throw error({caller,
                   ": the labels equal the inputs, but each label must be the token after its input; pass labels that "
                   "are already shifted, or pass ct::labels::shift after the labels"});
}

[[gnu::cold]] CONSTRAIN_INLINE void check_shiftable(char const* caller, plan_ports ports) {
  for (auto const& port : ports)
    if (port.kind == port_kind::label && !port.ignorable)
      throw error({caller, ": ct::labels::shift ignores the last label of each sequence, but an op indexes by ",
                   name_in_errors(port),
                   "; pass labels that are already shifted, with an integer at the end of each sequence"});
}

[[noreturn, gnu::cold]] CONSTRAIN_INLINE void refuse_shift(char const* caller) {
  throw error({caller, ": ct::labels::shift is for labels that are the next tokens of the model's only input, as for "
                       "ct::causal_lm; leave it out, and pass the labels that the objective takes"});
}

CONSTRAIN_INLINE std::vector<std::int32_t> shifted(std::span<std::int32_t const> labels, std::int64_t tokens) {
  auto const sequence_length = static_cast<std::size_t>(tokens);
  std::vector<std::int32_t> out(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    out[i] = (i + 1) % sequence_length == 0 || i + 1 == labels.size() ? ignored_label : labels[i + 1];
  return out;
}

} // namespace constrain::detail
