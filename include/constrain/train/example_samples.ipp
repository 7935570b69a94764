#pragma once

#include "constrain/train/example_samples.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/label.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
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

/// See `samples_in`.
class example_samples final : public sample_set {
public:
  example_samples(data::examples const& examples, example_cut const& cut, std::int64_t tokens)
      : examples_(examples), index_(examples.splits(), static_cast<std::int64_t>(cut.count())), tokens_(tokens) {
    cut.for_ports([&](plan_port const& port, array_view array) {
      bool const label = port.kind == port_kind::label, integers = array.type() == dtype::i32;
      ports_.push_back({array, cut.elements(port), label});
      inputs_ += label ? 0 : 1;
      pads_ = pads_ && (!label || integers);
    });
  }

  words called() const override {
    return {"examples", "examples have", "these examples", "more examples",
            "every label is ignored; give examples with labels"};
  }
  std::int64_t size() const override { return index_.size(); }
  std::uint64_t fingerprint() const override { return examples_.fingerprint(); }
  std::int64_t labels(std::int64_t sample) const override {
    auto const& first = ports_[inputs_];
    if (first.array.type() != dtype::i32) return static_cast<std::int64_t>(first.elements);
    // A label that is shifted away does not count.
    auto const own = part(first, sample).integers().subspan(shifts() ? 1 : 0);
    return own.end() - own.begin() - std::count(own.begin(), own.end(), ignored_label);
  }
  bool has_labels() const override {
    bool any = false;
    for (std::int64_t i = 0; i < size() && !any; ++i) any = labels(i) > 0;
    return any;
  }
  bool every_sample_has_a_label() const override {
    bool all = true;
    for (std::int64_t i = 0; i < size() && all; ++i) all = labels(i) > 0;
    return all;
  }
  bool pads() const override { return pads_; }

  batch_buffer buffer(std::int64_t rows) const override {
    batch_buffer made;
    for (auto const& port : ports_) made.ports.emplace_back(static_cast<std::size_t>(rows) * bytes(port));
    return made;
  }
  void view(batch_buffer& to) const override;
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const override;
  void pad(std::int64_t row, batch_buffer& to) const override;

private:
  /// The array of an input or a label.
  struct port_array {
    array_view array;
    std::size_t elements; // of one example
    bool label;
  };

  static std::size_t bytes(port_array const& port) {
    return port.elements * static_cast<std::size_t>(size_of(port.array.type()));
  }
  array_view part(port_array const& port, std::int64_t sample) const {
    return port.array.part(static_cast<std::size_t>(index_(sample)) * port.elements, port.elements);
  }
  bool shifts() const { return examples_.which() == constrain::labels::shift; }
  /// The labels of row `row`, if they are integers.
  static std::span<std::int32_t> integers_of(port_array const& port, std::byte* row) {
    return {reinterpret_cast<std::int32_t*>(row), port.elements};
  }

  data::examples examples_;
  data::examples_index index_;
  std::int64_t tokens_;
  std::vector<port_array> ports_{};
  std::size_t inputs_ = 0; // the number of inputs, which come first in `ports_`
  bool pads_ = true;
};

CONSTRAIN_INLINE void example_samples::view(batch_buffer& to) const {
  if (to.views == nullptr) {
    std::vector<array_view> views;
    for (std::size_t i = 0; i < ports_.size(); ++i) views.push_back(ports_[i].array.with_elements(to.ports[i]));
    std::span<array_view const> const all(views);
    to.views = std::make_shared<batch_arrays const>(batch_arrays{all.first(inputs_), all.subspan(inputs_), {}});
  }
  auto const &inputs = to.views->inputs, &labels = to.views->labels;
  to.batch = {inputs[0].integers(), labels[0].integers(), 0, fingerprint(), {}, tokens_, {}, to.views};
}

CONSTRAIN_INLINE void example_samples::copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    auto const from = part(ports_[i], sample).bytes();
    auto* const out = to.ports[i].data() + static_cast<std::size_t>(row) * from.size();
    bool const shifted = ports_[i].label && shifts();
    auto const skipped = shifted ? sizeof(std::int32_t) : 0;
    std::memcpy(out, from.data() + skipped, from.size() - skipped);
    if (shifted) integers_of(ports_[i], out).back() = ignored_label;
  }
}

CONSTRAIN_INLINE void example_samples::pad(std::int64_t row, batch_buffer& to) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    auto* const out = to.ports[i].data() + static_cast<std::size_t>(row) * bytes(ports_[i]);
    if (ports_[i].label) std::ranges::fill(integers_of(ports_[i], out), ignored_label);
    else std::memset(out, 0, bytes(ports_[i]));
  }
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE sample_set_pointer samples_in(char const* where, data::examples const& examples,
                                                             detail::batch_needs const& needed,
                                                             std::int64_t sequences) {
  detail::example_cut const cut(where, examples, needed, sequences);
  auto made = std::make_shared<detail::example_samples const>(examples, cut, needed.tokens);
  cut.check_values();
  if (made->size() == 0)
    throw error({where, ": this part of the ", cut.count(),
                 " examples is empty; give more examples, or split off another share"});
  return made;
}

} // namespace constrain
