#pragma once

#include "constrain/train/example_samples.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/label.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Cuts the arrays of examples along their ports. See `samples_in`.
class example_cut {
public:
  example_cut(char const* where, data::examples const& examples, batch_needs const& needed, std::int64_t sequences)
      : where_(where), examples_(examples), needed_(needed), sequences_(static_cast<std::size_t>(sequences)) {}

  /// The number of examples in the arrays. Throws `error` unless all arrays hold as many complete ones, at least one.
  std::size_t count() const {
    check_types(where_, needed_.ports, port_kind::input, examples_.inputs());
    check_types(where_, needed_.ports, port_kind::label, examples_.labels());
    plan_port const* first = nullptr;
    std::size_t count = 0;
    for_ports([&](plan_port const& port, array_view array) {
      auto const each = elements(port), has = array.size() / each;
      if (array.size() % each != 0)
        throw error({where_, ": ", called(port), " has ", array.size(), " elements, which is not a multiple of the ",
                     each, " of one example; pass complete examples"});
      if (first == nullptr) first = &port, count = has;
      if (has != count)
        throw error({where_, ": ", called(*first), " has ", count, " examples, but ", called(port), " has ", has,
                     "; pass arrays of the same number of examples"});
    });
    if (count == 0) throw error({where_, ": there are no examples; pass arrays of at least one"});
    return count;
  }

  /// Throws `error` for the first value that its port does not accept, and for labels that should be shifted.
  void check_values() const {
    for_ports([&](plan_port const& port, array_view array) {
      if (auto const i = first_invalid(port, array); i < array.size()) refuse(port, array, i);
    });
    bool const shifts = examples_.which() == constrain::labels::shift;
    if (shifts && !needed_.next_tokens)
      throw error({where_, ": ct::labels::shift is for labels that are the next tokens, as for ct::causal_lm; leave it "
                           "out for another objective"});
    if (needed_.next_tokens && !shifts)
      check_shifted(where_, examples_.inputs()[0].integers(), examples_.labels()[0].integers(), needed_.tokens);
  }

  /// The elements of one example in the array of a port.
  std::size_t elements(plan_port const& port) const {
    auto const all = static_cast<std::size_t>(port.elements);
    if (all % sequences_ != 0)
      throw error({where_, ": ", called(port), " has ", all, " elements for ", sequences_,
                   " sequences, so that it has no part for each example; write batch(inputs, labels)"});
    return all / sequences_;
  }

  /// Calls `visit(port, array)` for each input and each label, in their order.
  void for_ports(function_ref<void(plan_port const&, array_view)> visit) const {
    for (auto const kind : {port_kind::input, port_kind::label}) {
      std::size_t i = 0;
      for (auto const& port : needed_.ports)
        if (port.kind == kind) visit(port, (kind == port_kind::input ? examples_.inputs() : examples_.labels())[i++]);
    }
  }

private:
  [[noreturn, gnu::cold]] void refuse(plan_port const& port, array_view array, std::size_t i) const {
    auto const each = elements(port), example = i / each, position = i % each;
    if (array.type() != dtype::i32)
      throw error({where_, ": ", called(port), " of example ", example, " is not finite at position ", position,
                   "; pass finite numbers, for example 0 where a value is missing"});
    bool const label = port.kind == port_kind::label;
    throw error({where_, ": ", called(port), " of example ", example, " is ", array.integers()[i], " at position ",
                 position, ", outside [0, ", port.limit, "); pass integers from 0 to ", port.limit - 1,
                 label ? ", or -100 to ignore one" : ""});
  }

  char const* where_;
  data::examples const& examples_;
  batch_needs const& needed_;
  std::size_t sequences_;
};

/// The data of a `sample_set`.
class example_samples {
public:
  example_samples(data::examples const& examples, example_cut const& cut, std::int64_t tokens)
      : examples_(examples), index_(examples.splits(), static_cast<std::int64_t>(cut.count())), tokens_(tokens) {
    cut.for_ports([&](plan_port const& port, array_view array) {
      ports_.push_back({array, cut.elements(port), port.kind == port_kind::label});
      inputs_ += port.kind == port_kind::input ? 1 : 0;
    });
  }

  std::int64_t size() const { return index_.size(); }
  /// Whether every label can be ignored.
  bool pads() const {
    return std::ranges::all_of(ports_, [](auto const& port) { return !port.label || port.array.type() == dtype::i32; });
  }

  std::int64_t labels(std::int64_t sample) const {
    auto const& first = ports_[inputs_];
    if (first.array.type() != dtype::i32) return static_cast<std::int64_t>(first.elements);
    // A label that is shifted away does not count.
    auto const own = part(first, sample).integers().subspan(shifts() ? 1 : 0);
    return own.end() - own.begin() - std::count(own.begin(), own.end(), ignored_label);
  }
  void view(std::int64_t rows, batch_buffer& to) const;
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const;
  void pad(std::int64_t row, batch_buffer& to) const;

private:
  /// The array of an input or a label.
  struct port_array {
    array_view array;
    std::size_t elements; // of one example
    bool label;

    std::size_t bytes() const { return elements * static_cast<std::size_t>(size_of(array.type())); }
  };

  array_view part(port_array const& port, std::int64_t sample) const {
    return port.array.part(static_cast<std::size_t>(index_(sample)) * port.elements, port.elements);
  }
  bool shifts() const { return examples_.which() == constrain::labels::shift; }
  /// The memory of port `i` in row `row`.
  std::byte* place(std::size_t i, std::int64_t row, batch_buffer& to) const {
    return to.of_examples->memory[i].data() + static_cast<std::size_t>(row) * ports_[i].bytes();
  }
  static std::span<std::int32_t> integers(port_array const& port, std::byte* in) {
    return {reinterpret_cast<std::int32_t*>(in), port.elements};
  }

  data::examples examples_;
  data::examples_index index_;
  std::int64_t tokens_;
  std::vector<port_array> ports_{};
  std::size_t inputs_ = 0; // the number of inputs, which come first in `ports_`
};

CONSTRAIN_INLINE void example_samples::view(std::int64_t rows, batch_buffer& to) const {
  if (to.of_examples == nullptr) {
    auto const made = std::make_shared<batch_arrays>();
    std::vector<array_view> views;
    for (auto const& port : ports_) {
      made->memory.emplace_back(static_cast<std::size_t>(rows) * port.bytes());
      views.push_back(port.array.with_elements(made->memory.back()));
    }
    std::span<array_view const> const all(views);
    made->inputs = all.first(inputs_), made->labels = all.subspan(inputs_);
    to.of_examples = made;
  }
  auto const &inputs = to.of_examples->inputs, &labels = to.of_examples->labels;
  to.batch = {inputs[0].integers(), labels[0].integers(), 0, examples_.fingerprint(), {}, tokens_, {}, to.of_examples};
}

CONSTRAIN_INLINE void example_samples::copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    auto const from = part(ports_[i], sample).bytes();
    auto* const out = place(i, row, to);
    bool const shifted = ports_[i].label && shifts();
    auto const skipped = shifted ? sizeof(std::int32_t) : 0;
    std::memcpy(out, from.data() + skipped, from.size() - skipped);
    if (shifted) integers(ports_[i], out).back() = ignored_label;
  }
}

CONSTRAIN_INLINE void example_samples::pad(std::int64_t row, batch_buffer& to) const {
  for (std::size_t i = 0; i < ports_.size(); ++i)
    if (auto* const out = place(i, row, to); ports_[i].label)
      std::ranges::fill(integers(ports_[i], out), ignored_label);
    else std::memset(out, 0, ports_[i].bytes());
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE sample_set samples_in(char const* where, data::examples const& examples,
                                                     detail::batch_needs const& needed, std::int64_t sequences) {
  detail::example_cut const cut(where, examples, needed, sequences);
  auto made = std::make_shared<detail::example_samples const>(examples, cut, needed.tokens);
  cut.check_values();
  if (made->size() == 0)
    throw error({where, ": this part of the ", cut.count(),
                 " examples is empty; give more examples, or split off another share"});
  sample_set::words const called{"examples", "examples have", "these examples", "more examples",
                                 "every label is ignored; give examples with labels"};
  sample_set::facts const facts{called, made->size(), examples.fingerprint(), made->pads()};
  return {std::move(made), facts};
}

} // namespace constrain
