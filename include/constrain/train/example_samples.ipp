#pragma once

#include "constrain/train/example_samples.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/base/label.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The array of one input or one label, for all examples.
struct example_array {
  plan_port const* port = nullptr;
  array_view data{};        // of all examples
  std::size_t elements = 0; // of one example

  bool is_label() const { return port->kind == port_kind::label; }
  bool is_integers() const { return data.type() == dtype::i32; }
  double real(std::size_t i) const {
    return data.type() == dtype::f32 ? static_cast<double>(typed_data<float>(data)[i]) : typed_data<double>(data)[i];
  }
  std::size_t bytes() const { return elements * static_cast<std::size_t>(size_of(data.type())); }
};

/// The arrays of all inputs, then of all labels.
using example_arrays = fixed_vector<example_array, 2 * maximum_ports>;

/// Matches the arrays of examples to the ports of a task. Throws `error` unless each port has an array of the right
/// type, each port can be divided into examples, and each array holds complete examples. `caller`, `needed`,
/// `sequences`: as in `samples_in`.
[[gnu::cold]] CONSTRAIN_INLINE example_arrays match_arrays(char const* caller, data::examples const& examples,
                                                           batch_needs const& needed, std::size_t sequences) {
  check_types(caller, needed.ports, port_kind::input, examples.inputs());
  check_types(caller, needed.ports, port_kind::label, examples.labels());
  example_arrays arrays;
  for (auto const kind : {port_kind::input, port_kind::label}) {
    std::size_t next_array = 0;
    for (auto const& port : needed.ports) {
      if (port.kind != kind) continue;
      auto const array = (kind == port_kind::input ? examples.inputs() : examples.labels())[next_array++];
      auto const elements = static_cast<std::size_t>(port.elements), example_elements = elements / sequences;
      if (elements % sequences != 0)
        throw error({caller, ": ", name_in_errors(port), " has ", counted(elements, "element"), " in a micro-batch of ",
                     counted(sequences, "sequence"),
                     ", so it cannot be divided into examples; pass the arrays to batch or evaluate instead"});
      if (array.size() % example_elements != 0)
        throw error({caller, ": ", name_in_errors(port), " has ", counted(array.size(), "element"),
                     ", which is not a multiple of the ", counted(example_elements, "element"),
                     " of one example; pass complete examples"});
      arrays.push_back({&port, array, example_elements});
    }
  }
  return arrays;
}

/// The number of examples. Throws `error` unless all arrays hold the same number, at least 1.
[[gnu::cold]] CONSTRAIN_INLINE std::size_t count_examples(char const* caller, example_arrays const& arrays) {
  auto const& first = arrays[0];
  auto const count = first.data.size() / first.elements;
  for (auto const& other : arrays)
    if (auto const size = other.data.size() / other.elements; size != count)
      throw error({caller, ": ", name_in_errors(*first.port), " has ", counted(count, "example"), ", but ",
                   name_in_errors(*other.port), " has ", size, "; pass arrays of the same number of examples"});
  if (count == 0) throw error({caller, ": there are no examples; pass arrays with at least one"});
  return count;
}

/// Throws the error for element `i` of an array, a value that the array's port does not accept.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void refuse_element(char const* caller, example_array const& array,
                                                             std::size_t i) {
  auto const example = i / array.elements, position = i % array.elements;
  if (!array.is_integers())
    throw error({caller, ": ", name_in_errors(*array.port), " of example ", example,
                 why_refused(*array.port, array.real(i), concat({"position ", position}))});
  auto const value = array.data.integers()[i];
  throw error({caller, ": ", name_in_errors(*array.port), " of example ", example, " is ", value, " at position ",
               position, why_refused(*array.port, value)});
}

/// Throws `error` for the first value that its port does not accept, for labels that should be shifted but are not, for
/// labels that cannot be shifted as requested, and for masked examples whose labels should be the next tokens.
[[gnu::cold]] CONSTRAIN_INLINE void check_elements(char const* caller, data::examples const& examples,
                                                   example_arrays const& arrays, batch_needs const& needed) {
  for (auto const& array : arrays)
    if (auto const i = first_invalid(*array.port, array.data); i < array.data.size()) refuse_element(caller, array, i);
  bool const shifts = examples.label_kind() == constrain::labels::shift;
  if (shifts && !needed.next_tokens) refuse_shift(caller);
  if (shifts) check_shiftable(caller, needed.ports);
  if (needed.next_tokens && examples.masks())
    throw error({caller, ": the examples are masked, but the objective's labels are the next tokens; use "
                         "ct::masked_lm, or leave with_masks out"});
  if (needed.next_tokens && !shifts)
    check_shifted(caller, examples.inputs()[0].integers(), examples.labels()[0].integers(), needed.tokens);
}

/// Throws `error` unless masked examples have one integer label per token, equal to the token or `ignored_label`,
/// labels can be ignored, and the vocabulary of `masking` is no larger than the model's.
[[gnu::cold]] CONSTRAIN_INLINE void check_masks(char const* caller, data::masking const& masking,
                                                example_array const& tokens, example_array const& labels) {
  if (!tokens.is_integers() || !labels.is_integers() || tokens.elements != labels.elements)
    throw error({caller, ": the examples are masked, but ", name_in_errors(*labels.port), " has ",
                 counted(labels.elements, "element"), " of type ", name_of(labels.data.type()), " for the ",
                 tokens.elements, " of type ", name_of(tokens.data.type()), " of ", name_in_errors(*tokens.port),
                 "; pass the tokens as labels, one integer per token, to an objective that takes them"});
  if (!labels.port->ignorable)
    throw error({caller, ": the examples are masked, so the labels of all tokens that are not masked are ignored, but ",
                 name_in_errors(*labels.port), " cannot be ignored; use an objective with a cross-entropy"});
  if (tokens.port->limit > 0 && masking.vocabulary > tokens.port->limit)
    throw error({caller, ": the masking has a .vocabulary of ", masking.vocabulary, ", but ",
                 name_in_errors(*tokens.port), " takes tokens below ", tokens.port->limit,
                 "; give a .vocabulary of at most ", tokens.port->limit});
  auto const token = tokens.data.integers(), label = labels.data.integers();
  for (std::size_t i = 0; i < token.size(); ++i)
    if (label[i] != token[i] && label[i] != ignored_label)
      throw error({caller, ": the examples are masked, but ", name_in_errors(*labels.port), " of example ",
                   i / labels.elements, " is ", label[i], " at position ", i % labels.elements, ", where the token is ",
                   token[i], "; pass the tokens as labels"});
}

/// The object that a `sample_set` of examples holds. `labels`, `view`, `copy` and `pad` are as in `sample_set`.
struct example_samples {
  data::examples examples;
  example_arrays arrays;
  data::examples_index index;
  std::int64_t tokens; // in a sequence

  bool shifts() const { return examples.label_kind() == constrain::labels::shift; }
  std::size_t inputs() const { return examples.inputs().size(); }
  /// The elements of a sample in the array `array`.
  array_view elements_of(example_array const& array, std::int64_t sample) const {
    return array.data.slice(static_cast<std::size_t>(index(sample)) * array.elements, array.elements);
  }

  std::int64_t labels(std::int64_t sample) const;
  void view(std::int64_t rows, batch_buffer& to) const;
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const;
  void pad(std::int64_t row, batch_buffer& to) const;
};

CONSTRAIN_INLINE std::int64_t example_samples::labels(std::int64_t sample) const {
  auto const& first = arrays[static_cast<int>(inputs())];
  if (!first.is_integers()) return static_cast<std::int64_t>(first.elements);
  std::int64_t valid = 0;
  // Shifting drops the first label of a sample.
  for (auto const label : elements_of(first, sample).integers().subspan(shifts() ? 1 : 0))
    valid += label != ignored_label;
  return examples.masks() ? data::count_masked(*examples.masks(), valid) : valid;
}

CONSTRAIN_INLINE void example_samples::view(std::int64_t rows, batch_buffer& to) const {
  if (to.of_examples == nullptr) {
    auto const storage = std::make_shared<batch_arrays>();
    array_view views[example_arrays::capacity];
    std::size_t bytes = 0, i = 0;
    auto const reserve = [&](example_array const& a) { // returns the array's offset; an element has at most 8 bytes
      return std::exchange(bytes, (bytes + static_cast<std::size_t>(rows) * a.bytes() + 7) / 8 * 8);
    };
    for (auto const& array : arrays) reserve(array);
    storage->memory.reset(new std::byte[std::exchange(bytes, 0)]);
    for (auto const& array : arrays)
      views[i++] = array.data.with_elements(
          {storage->memory.get() + reserve(array), static_cast<std::size_t>(rows) * array.bytes()});
    storage->inputs = array_list(static_cast<array_view const*>(views), inputs());
    storage->labels = array_list(views + inputs(), i - inputs());
    to.of_examples = storage;
  }
  auto const &inputs = to.of_examples->inputs, &labels = to.of_examples->labels;
  to.batch = {inputs[0].integers(), labels[0].integers(), 0, examples.fingerprint(), {}, tokens, {}, to.of_examples};
}

/// The first byte of a row in array `i` of a buffer.
CONSTRAIN_INLINE std::byte* row_of(example_samples const& samples, int i, std::int64_t row, batch_buffer& to) {
  auto const k = static_cast<std::size_t>(i), inputs = samples.inputs();
  auto const array = k < inputs ? to.of_examples->inputs[k] : to.of_examples->labels[k - inputs];
  // `array` is a read-only view of memory that the buffer owns.
  auto* const memory = to.of_examples->memory.get();
  return memory + (array.bytes().data() - memory) + row * static_cast<std::int64_t>(samples.arrays[i].bytes());
}

CONSTRAIN_INLINE void example_samples::copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const {
  for (int i = 0; i < arrays.size(); ++i) {
    auto const from = elements_of(arrays[i], sample).bytes();
    auto* const out = row_of(*this, i, row, to);
    std::size_t const shifted = arrays[i].is_label() && shifts() ? sizeof ignored_label : 0;
    std::memcpy(out, from.data() + shifted, from.size() - shifted);
    std::memcpy(out + from.size() - shifted, &ignored_label, shifted);
  }
  if (!examples.masks()) return;
  auto const row_span = [&](int i) {
    return std::span(reinterpret_cast<std::int32_t*>(row_of(*this, i, row, to)), arrays[i].elements);
  };
  data::mask_tokens(*examples.masks(), to.epoch, index(sample), row_span(0), row_span(static_cast<int>(inputs())));
}

CONSTRAIN_INLINE void example_samples::pad(std::int64_t row, batch_buffer& to) const {
  for (int i = 0; i < arrays.size(); ++i) {
    auto* const out = row_of(*this, i, row, to);
    std::memset(out, 0, arrays[i].bytes());
    if (arrays[i].port->ignorable) std::fill_n(reinterpret_cast<std::int32_t*>(out), arrays[i].elements, ignored_label);
  }
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE sample_set samples_in(char const* caller, data::examples const& examples,
                                                     detail::batch_needs const& needed, std::int64_t sequences,
                                                     char const* remedy) {
  auto const arrays = detail::match_arrays(caller, examples, needed, static_cast<std::size_t>(sequences));
  auto const count = detail::count_examples(caller, arrays);
  detail::check_elements(caller, examples, arrays, needed);
  data::examples_index const index(examples.splits(), static_cast<std::int64_t>(count));
  if (index.size() == 0)
    throw error(
        {caller, ": this part of the ", counted(count, "example"), " is empty; give more examples, or ", remedy});
  auto const first = static_cast<int>(examples.inputs().size());
  if (examples.masks()) detail::check_masks(caller, *examples.masks(), arrays[0], arrays[first]);
  bool pads = needed.pads;
  for (auto const& array : arrays) pads = pads && (!array.is_label() || array.is_integers());
  sample_set::words const wording{"examples", "examples have", "these examples", "more examples",
                                  "every label is ignored; give examples with labels"};
  return {
      std::make_shared<detail::example_samples const>(detail::example_samples{examples, arrays, index, needed.tokens}),
      {wording, index.size(), examples.fingerprint(), pads}};
}

} // namespace constrain
