#pragma once

#include "constrain/train/intake.hpp"

#include "constrain/base/convert_reals.hpp"
#include "constrain/base/error.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE batch batch_of_step(array_list const& inputs, array_list const& labels,
                                                   constrain::labels label_kind, batch_needs const& needed) {
  check_lengths("batch", needed.ports, port_kind::input, inputs, "micro-batches, ");
  check_lengths("batch", needed.ports, port_kind::label, labels, "micro-batches, ");
  return batch_of_arrays("batch", inputs, labels, label_kind, needed);
}

CONSTRAIN_INLINE array_list micro_batch_of(plan_ports ports, port_kind kind, array_list const& arrays,
                                           std::size_t index) {
  array_view slices[array_list::capacity];
  std::size_t i = 0;
  for (auto const& port : ports) {
    if (port.kind != kind) continue;
    auto const elements = static_cast<std::size_t>(port.elements);
    slices[i] = arrays[i].slice(index * elements, elements);
    ++i;
  }
  return array_list(static_cast<array_view const*>(slices), i);
}

CONSTRAIN_INLINE bool is_integers(array_view const& a) { return a.type() == dtype::i32; }

[[gnu::cold]] CONSTRAIN_INLINE batch batch_of_arrays(char const* caller, array_list const& inputs,
                                                     array_list const& labels, constrain::labels label_kind,
                                                     batch_needs const& needed) {
  if (label_kind > constrain::labels::shift)
    throw error(
        {caller, ": the kind of labels is ", static_cast<int>(label_kind), "; give labels::shifted or labels::shift"});
  check_all_values(caller, needed.ports, port_kind::input, inputs);
  batch b{inputs[0].integers(), labels[0].integers(), 0, 0, {}, needed.tokens, {}, {}};
  if (label_kind == constrain::labels::shift) {
    if (!needed.next_tokens) refuse_shift(caller);
    check_shiftable(caller, needed.ports);
    auto const storage = std::make_shared<batch_arrays>();
    storage->shifted = shifted(b.labels, needed.tokens);
    b.labels = {storage->shifted.data(), storage->shifted.size()};
    storage->inputs = inputs, storage->labels = b.labels;
    b.arrays = storage;
  } else if (needed.next_tokens) {
    check_shifted(caller, b.inputs, b.labels, needed.tokens);
  } else if (inputs.size() > 1 || labels.size() > 1 || !is_integers(inputs[0]) || !is_integers(labels[0])) {
    b.arrays = std::make_shared<batch_arrays const>(batch_arrays{inputs, labels, {}});
  }
  b.valid_labels = check_all_values(caller, needed.ports, port_kind::label, b.every_label());
  return b;
}

[[gnu::cold]] CONSTRAIN_INLINE void check_batch(batch const& b, batch_needs const& needed) {
  if (!b.ticket.valid())
    throw error(
        "step: the batch's arrays were reused, because the range from `batches` has advanced or ended since; step each "
        "batch before advancing, or copy its arrays and pass the copies to batch(inputs, labels)");
  auto const inputs = b.every_input(), labels = b.every_label();
  bool fits = true;
  std::size_t next_array[2]{};
  std::int64_t elements[2]{};
  for (auto const& port : needed.ports) {
    if (port.kind == port_kind::result) continue;
    bool const is_input = port.kind == port_kind::input;
    auto& i = next_array[is_input ? 0 : 1];
    if (i == 0) elements[is_input ? 0 : 1] = port.elements;
    auto const array = is_input ? inputs[i] : labels[i];
    ++i;
    fits = fits && array.size() == static_cast<std::size_t>(port.elements) &&
           (port.spec.type == port_type::ids) == (array.type() == dtype::i32);
  }
  char const* const advice = "; take the batch from this trainer's `batches` or `batch`";
  auto const first_size = [](array_list const& arrays) { return static_cast<std::int64_t>(arrays[0].size()); };
  if (first_size(inputs) != elements[0] || first_size(labels) != elements[1])
    throw error({"step: the first input of the batch has ", counted(first_size(inputs), "element"),
                 " and the first label ", first_size(labels), ", but this trainer takes ", elements[0], " and ",
                 elements[1], advice});
  if (!fits || inputs.size() != next_array[0] || labels.size() != next_array[1])
    throw error({"step: the batch's arrays do not have the number, types and lengths that this trainer takes", advice});
  if (b.sequence != 0 && b.sequence != needed.tokens)
    throw error({"step: the batch has sequences of ", counted(b.sequence, "token"), ", but this trainer takes ",
                 needed.tokens, advice});
}

/// Writes the floating-point numbers `from` to the tensor `to` in the arena, converted to the tensor's dtype.
[[gnu::cold]] CONSTRAIN_INLINE void write_floats(arena& memory, host_view const& to, array_view from) {
  auto const* const source = from.bytes().data();
  auto const count = static_cast<std::int64_t>(from.size());
  if (from.type() == to.type) return memory.write(to.offset, source, count * size_of(to.type));
  constexpr std::int64_t chunk = 1024;
  std::byte converted[chunk * sizeof(double)];
  for (std::int64_t i = 0; i < count; i += chunk) {
    auto const n = std::min(chunk, count - i);
    convert_reals(from.type(), source + i * size_of(from.type()), to.type, converted, n);
    memory.write(to.offset + i * size_of(to.type), converted, n * size_of(to.type));
  }
}

CONSTRAIN_INLINE std::int64_t batch_copier::operator()(plan_port const& to, array_view from) const {
  auto const count = static_cast<std::int64_t>(from.size());
  bool const is_read = to.view.elements > 0; // otherwise no node reads the array
  if (from.type() != dtype::i32) {
    if (is_read) write_floats(memory_, to.view, from);
    return count;
  }
  if (is_read) memory_.write(to.view.offset, from.integers().data(), count * size_of(dtype::i32));
  return check_values(caller_, to, copy_of(to, from));
}

CONSTRAIN_INLINE array_view batch_copier::copy_of(plan_port const& to, array_view from) const {
  auto const* const host = memory_.host();
  if (host == nullptr || to.view.elements == 0) return from;
  return from.with_elements({host + to.view.offset, from.bytes().size()});
}

CONSTRAIN_INLINE std::int64_t batch_copier::operator()(plan_ports to, port_kind kind, array_list const& from) const {
  std::int64_t first = 0;
  std::size_t i = 0;
  for (auto const& port : to) {
    if (port.kind != kind) continue;
    auto const count = (*this)(port, from[i]);
    if (i++ == 0) first = count;
  }
  return first;
}

CONSTRAIN_INLINE std::int64_t batch_copier::labels(plan_ports to, array_list const& from,
                                                   std::span<std::int64_t> valid) const {
  auto const sum = (*this)(to, port_kind::label, from);
  plan_port const* first = nullptr;
  for (auto const& port : to)
    if (first == nullptr && port.kind == port_kind::label) first = &port;
  if (first == nullptr) return sum;
  auto const micro_batch_labels = from[0].size() / valid.size();
  bool const ignores = first->ignorable && from[0].type() == dtype::i32;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    valid[i] = static_cast<std::int64_t>(micro_batch_labels);
    if (!ignores) continue;
    for (auto const label : copy_of(*first, from[0]).slice(i * micro_batch_labels, micro_batch_labels).integers())
      valid[i] -= label == ignored_label ? 1 : 0;
  }
  return sum;
}

} // namespace constrain::detail
