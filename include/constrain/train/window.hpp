#pragma once

#include "constrain/data/order.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/program/error.hpp"

#include <span>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What one optimizer step reads: [micro-batches, sequences, tokens], borrowed until the step returns.
struct window {
  std::span<std::int32_t const> inputs;
  std::span<std::int32_t const> labels;
  std::int64_t valid_labels = 0;
  std::uint64_t corpus = 0; // fingerprint of the corpus it is from, 0 for one's own arrays
  data::position next;      // where that corpus goes on after it
};

namespace detail {

/// Refuses arrays where a window is needed.
template <class array> struct step_takes_a_window {
  static_assert(sizeof(array) == 0, "step: it takes a window; write t.step(t.window(inputs, labels))");
};

/// Throws unless `values` has `length` elements.
inline void check_length(char const* what, std::span<std::int32_t const> values, std::int64_t length) {
  if (values.size() != static_cast<std::size_t>(length))
    throw error(std::string("window: ") + what + " has " + std::to_string(values.size()) + " elements where " +
                std::to_string(length) + " are needed ([micro-batches, sequences, tokens]); pass an array of that length");
}

/// Throws unless every token is in [0, limit).
inline void check_tokens(std::span<std::int32_t const> tokens, std::int64_t limit) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= limit)
      throw error("window: token " + std::to_string(tokens[i]) + " at place " + std::to_string(i) +
                  " is outside the vocabulary of " + std::to_string(limit) + "; pass tokens from 0 to " +
                  std::to_string(limit - 1));
}

/// Counts the labels that are not ignored. Throws unless every label is in [0, limit) or ignored.
inline std::int64_t count_labels(std::span<std::int32_t const> labels, std::int64_t limit) {
  std::int64_t valid = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) continue;
    if (labels[i] < 0 || labels[i] >= limit)
      throw error("window: label " + std::to_string(labels[i]) + " at place " + std::to_string(i) +
                  " is outside the " + std::to_string(limit) + " classes; pass labels from 0 to " +
                  std::to_string(limit - 1) + ", or " + std::to_string(ignored_label) + " to ignore one");
    ++valid;
  }
  return valid;
}

} // namespace detail

} // namespace constrain
