#pragma once

#include "constrain/base/array_view.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/program/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The checks of the caller's arrays: each array against its port.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The ports of an entry's plan, which the checks filter by kind.
using plan_ports = std::span<plan_port const>;

// `caller`: the function that the user called, such as "predict" or "fit". Errors begin with this text.

/// Throws `error` unless every token is in [0, limit). The error states the bad token and its index.
void check_tokens(char const* caller, std::span<std::int32_t const> tokens, std::int64_t limit);

/// Returns the number of valid labels (not `ignored_label`). Throws `error` unless every valid label is in [0, limit).
std::int64_t count_labels(char const* caller, std::span<std::int32_t const> labels, std::int64_t limit);

/// Throws `error` unless `arrays`, the caller's arrays, holds one array of the right type for each port of `kind`. The
/// type of an array without elements is not checked. If only one port is of `kind`, an empty list counts as an array
/// without elements.
void check_types(char const* caller, plan_ports ports, port_kind kind, array_list const& arrays);

/// Calls `check_types`. Also throws `error` unless each array has the length of its port. `outer`: the error's text
/// before the port's dimensions, "micro-batches, " or "".
void check_lengths(char const* caller, plan_ports ports, port_kind kind, array_list const& arrays, char const* outer);

/// A port's name in errors, for example: the input "tokens".
std::string name_in_errors(plan_port const& port);

/// The end of an error: why a port does not accept an integer, and what to pass instead.
std::string why_refused(plan_port const& port, std::int32_t value);

/// The end of an error: why a port does not accept a floating-point number, and what to pass instead. `position`: the
/// position of the number, for example "index 3".
std::string why_refused(plan_port const& port, double value, std::string const& position);

/// The index of the first element that a port does not accept: an integer out of range, `ignored_label` if an op
/// indexes by the labels, or a floating-point number that is not finite or becomes infinite in the type in which it is
/// stored. Returns the number of elements if the port accepts all of them.
std::size_t first_invalid(plan_port const& port, array_view values);

/// Throws `error` unless the port accepts all elements. For a label port of integers, returns the number of valid
/// labels (not `ignored_label`); for any other port, the number of elements.
std::int64_t check_values(char const* caller, plan_port const& port, array_view values);

/// Calls `check_values` for every port of `kind`. Returns the result for the first of these ports; 0 if there is none.
std::int64_t check_all_values(char const* caller, plan_ports ports, port_kind kind, array_list const& arrays);

/// Calls `check_types` for the arrays passed to `evaluate`, and returns the number of micro-batches in them. `ports`:
/// the ports of one micro-batch. `pads`: as in `batch_needs`. Also throws `error` unless all arrays hold the same
/// number of complete micro-batches, at least 1.
[[gnu::cold]] std::size_t count_micro_batches(plan_ports ports, bool pads, array_list const& inputs,
                                              array_list const& labels);

/// Throws `error` if labels that should be the next tokens look like the input tokens: every valid label equals the
/// input at its position, and two consecutive valid labels of a sequence (of `tokens` tokens) differ. Without two such
/// labels, there is no error: equal tokens look the same shifted or not.
void check_shifted(char const* caller, std::span<std::int32_t const> inputs, std::span<std::int32_t const> labels,
                   std::int64_t tokens);

/// Throws `error` if labels cannot be shifted because an op indexes by them: the last label of a shifted sequence is
/// `ignored_label`.
[[gnu::cold]] void check_shiftable(char const* caller, plan_ports ports);

/// Throws the error for labels::shift where the labels are not the next tokens of the model's only input.
[[noreturn, gnu::cold]] void refuse_shift(char const* caller);

/// `labels` shifted to the left by one token in each sequence of `tokens` tokens: element i is labels[i + 1]. The last
/// label of a sequence is `ignored_label`.
std::vector<std::int32_t> shifted(std::span<std::int32_t const> labels, std::int64_t tokens);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/port_check.ipp"
#endif
