#pragma once

#include "constrain/train/intake.hpp"

#include "constrain/base/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Elements checked without a branch, so that the compiler can vectorize the check.
inline constexpr std::size_t check_block = 64;

/// An int32 is in [0, limit) exactly if, cast to unsigned, it is below the result.
constexpr std::uint32_t unsigned_limit(std::int64_t limit) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit, 0, std::int64_t{1} << 31));
}

CONSTRAIN_INLINE void check_tokens(char const* where, std::span<std::int32_t const> tokens, std::int64_t limit) {
  auto const below = unsigned_limit(limit);
  std::size_t i = 0;
  for (; i + check_block <= tokens.size(); i += check_block) {
    std::uint32_t outside = 0;
    for (std::size_t k = 0; k < check_block; ++k)
      outside |= static_cast<std::uint32_t>(tokens[i + k]) >= below ? 1u : 0u;
    if (outside != 0) break;
  }
  for (; i < tokens.size(); ++i)
    if (static_cast<std::uint32_t>(tokens[i]) >= below)
      throw error({where, ": token ", tokens[i], " at index ", i, " is outside the vocabulary of ", limit,
                   "; pass tokens from 0 to ", limit - 1});
}

CONSTRAIN_INLINE std::int64_t count_labels(char const* where, std::span<std::int32_t const> labels,
                                           std::int64_t limit) {
  auto const below = unsigned_limit(limit);
  std::int64_t valid = 0;
  std::size_t i = 0;
  for (; i + check_block <= labels.size(); i += check_block) {
    std::uint32_t outside = 0, in_block = 0;
    for (std::size_t k = 0; k < check_block; ++k) {
      auto const label = labels[i + k];
      std::uint32_t const counts = label != ignored_label ? 1u : 0u;
      outside |= counts & (static_cast<std::uint32_t>(label) >= below ? 1u : 0u);
      in_block += counts;
    }
    if (outside != 0) break;
    valid += in_block;
  }
  for (; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) continue;
    if (static_cast<std::uint32_t>(labels[i]) >= below)
      throw error({where, ": label ", labels[i], " at index ", i, " is outside the ", limit,
                   " classes; pass labels from 0 to ", limit - 1, ", or ", ignored_label, " to ignore one"});
    ++valid;
  }
  return valid;
}

CONSTRAIN_INLINE batch own_batch(std::span<std::int32_t const> inputs, std::span<std::int32_t const> labels,
                                 batch_lengths const& needed, std::int64_t vocabulary, std::int64_t classes) {
  constexpr auto const* shape = "[micro-batches, sequences, tokens]";
  check_length("batch", "the array of inputs", inputs, needed.inputs, shape);
  check_length("batch", "the array of labels", labels, needed.labels,
               needed.labels == needed.inputs ? shape : "[micro-batches, sequences]");
  if (vocabulary > 0) check_tokens("batch", inputs, vocabulary);
  return {inputs, labels, count_labels("batch", labels, classes), 0, {}, needed.sequence};
}

CONSTRAIN_INLINE std::size_t count_batches(std::size_t inputs, std::size_t labels, std::size_t inputs_each,
                                           std::size_t labels_each) {
  auto const batches = inputs / inputs_each;
  if (batches == 0 || inputs % inputs_each != 0)
    throw error({"evaluate: ", inputs, " inputs are not a positive multiple of the micro-batch's ", inputs_each,
                 "; pad the last micro-batch with any token and ignored labels"});
  if (labels != batches * labels_each)
    throw error({"evaluate: ", inputs, " inputs need ", batches * labels_each, " labels, but there are ", labels,
                 "; pass that many, ", ignored_label, " where an input has none"});
  return batches;
}

CONSTRAIN_INLINE void intake::tokens(host_view const& to, std::span<std::int32_t const> from) const {
  auto const taken = copy(to, from);
  if (vocabulary_ > 0) check_tokens(where_, taken, vocabulary_);
}

CONSTRAIN_INLINE std::span<std::int32_t const> intake::copy(host_view const& to,
                                                            std::span<std::int32_t const> from) const {
  memory_.write(to.offset, from.data(), static_cast<std::int64_t>(from.size_bytes()));
  auto const* const host = memory_.host();
  return host == nullptr ? from : std::span(reinterpret_cast<std::int32_t const*>(host + to.offset), from.size());
}

} // namespace constrain::detail
