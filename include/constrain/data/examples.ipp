#pragma once

#include "constrain/data/examples.hpp"

#include "constrain/base/number_check.hpp"
#include "constrain/io/crc32c.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Adds the `count` integers that start at `first` to the checksum.
[[gnu::cold]] CONSTRAIN_INLINE void add_numbers(io::crc32c& check, std::uint64_t const* first, std::size_t count) {
  check.update({reinterpret_cast<std::byte const*>(first), count * sizeof *first});
}

/// Adds an array to the checksum: type, length and content. Returns the array's length in bytes.
[[gnu::cold]] CONSTRAIN_INLINE std::int64_t add_array(io::crc32c& check, array_view const& a) {
  auto const bytes = a.bytes();
  std::uint64_t const head[] = {static_cast<std::uint64_t>(a.type()), bytes.size()};
  add_numbers(check, head, 2);
  check.update(bytes);
  return static_cast<std::int64_t>(bytes.size());
}

[[gnu::cold]] CONSTRAIN_INLINE examples::examples(lasting_arrays const& inputs, lasting_arrays const& labels,
                                                  constrain::labels label_kind)
    : inputs_(inputs), labels_(labels), label_kind_(label_kind) {
  if (label_kind > constrain::labels::shift)
    throw error(
        {"examples: the kind of labels is ", static_cast<int>(label_kind), "; give labels::shifted or labels::shift"});
  io::crc32c check;
  std::int64_t bytes = 0;
  for (auto const* list : {&inputs_, &labels_}) {
    std::uint64_t const head[] = {list->size(), static_cast<std::uint64_t>(label_kind)};
    add_numbers(check, head, 2);
    for (std::size_t i = 0; i < list->size(); ++i) bytes += add_array(check, (*list)[i]);
  }
  fingerprint_ = static_cast<std::uint64_t>(bytes) << 32 | check.value();
}

[[gnu::cold]] CONSTRAIN_INLINE examples examples::from_storage(std::shared_ptr<void const> storage,
                                                               array_list const& inputs, array_list const& labels,
                                                               constrain::labels label_kind) {
  examples result(inputs, labels, label_kind);
  result.storage_ = std::move(storage);
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE examples examples::part(random_split const& split) const {
  auto result = *this;
  if (!result.splits_.push_back(split))
    throw error({"split: the examples are already the result of ", counted(splits_.size(), "nested split"),
                 "; split fewer times"});
  std::uint64_t numbers[] = {fingerprint_, 0, static_cast<std::uint64_t>(split.validation_limit), split.seed,
                             split.is_validation ? 1u : 0u};
  std::memcpy(&numbers[1], &split.validation_fraction, sizeof split.validation_fraction);
  io::crc32c check;
  add_numbers(check, numbers, 5);
  result.fingerprint_ = (fingerprint_ >> 32) << 32 | check.value();
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE examples::parts examples::split(double validation_fraction, std::uint64_t seed,
                                                               std::int64_t validation_limit) const {
  if (!constrain::detail::is_within(validation_fraction, number_range::from_zero_to_one))
    throw error({"split: a validation fraction of ", constrain::detail::number_text(validation_fraction),
                 " is out of range; give one from 0 to 1"});
  if (validation_limit < 0)
    throw error({"split: a maximum of ", validation_limit, " examples is out of range; give 0 or more"});
  return {part({validation_fraction, validation_limit, seed, false}),
          part({validation_fraction, validation_limit, seed, true})};
}

[[gnu::cold]] CONSTRAIN_INLINE examples examples::with_masks(masking const& options) const {
  check_masking(options);
  if (masks_) throw error("with_masks: the examples are already masked; call with_masks on the unmasked examples");
  if (label_kind_ == constrain::labels::shift)
    throw error("with_masks: the examples have labels::shift, but the label of a masked token is the token itself; "
                "leave labels::shift out");
  auto result = *this;
  result.masks_ = options;
  std::uint64_t numbers[] = {fingerprint_,
                             static_cast<std::uint64_t>(options.mask_token),
                             static_cast<std::uint64_t>(options.vocabulary),
                             options.seed,
                             static_cast<std::uint64_t>(options.span),
                             0,
                             0,
                             0};
  double const shares[] = {options.share, options.masked, options.random};
  std::memcpy(&numbers[5], shares, sizeof shares);
  io::crc32c check;
  add_numbers(check, numbers, 8);
  result.fingerprint_ = (fingerprint_ >> 32) << 32 | check.value();
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE examples_index::examples_index(split_history const& splits, std::int64_t count)
    : size_(count) {
  for (auto const& split : splits) {
    auto const rounded_down = static_cast<std::int64_t>(split.validation_fraction * static_cast<double>(size_));
    auto const validation_count = std::min(std::min(rounded_down, split.validation_limit), size_);
    split_parts_.push_back({split.seed, size_, split.is_validation ? 0 : validation_count});
    size_ = split.is_validation ? validation_count : size_ - validation_count;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t examples_index::operator()(std::int64_t i) const {
  for (int k = split_parts_.size() - 1; k >= 0; --k)
    i = permutation(split_parts_[k].seed, 0, split_parts_[k].count)(split_parts_[k].first + i);
  return i;
}

} // namespace constrain::data
