#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/run/executor.hpp"
#include "constrain/train/batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error`, which gives the bad token and its index, unless every token is in [0, limit). `where`: the first
/// words of the error.
void check_tokens(char const* where, std::span<std::int32_t const> tokens, std::int64_t limit);

/// Returns the number of labels that are not `ignored_label`. Throws `error` unless each of these labels is in
/// [0, limit). `where`: the first words of the error.
std::int64_t count_labels(char const* where, std::span<std::int32_t const> labels, std::int64_t limit);

/// A batch that views the caller's arrays, for `trainer::batch`. Throws `error` unless the arrays have the lengths
/// `needed`, tokens are in [0, vocabulary) and labels in [0, classes) or `ignored_label`. `vocabulary` 0: tokens are
/// not checked.
batch own_batch(std::span<std::int32_t const> inputs, std::span<std::int32_t const> labels, batch_lengths const& needed,
                std::int64_t vocabulary, std::int64_t classes);

/// The number of micro-batches in arrays for `evaluate`, of `inputs` inputs and `labels` labels. A micro-batch has
/// `inputs_each` inputs and `labels_each` labels. Throws `error` unless both arrays hold the same number of complete
/// micro-batches, at least 1.
[[gnu::cold]] std::size_t count_batches(std::size_t inputs, std::size_t labels, std::size_t inputs_each,
                                        std::size_t labels_each);

/// Copies tokens and labels into the arena and range-checks them, since kernels do not check them. Where the host can
/// address the arena, the copy is checked, because another thread could change the caller's array between copy and
/// check.
class intake {
public:
  /// `where`: the first words of every error. `memory`: the arena to copy into. `vocabulary`, `classes`: limits of
  /// tokens and labels; `vocabulary` 0: tokens are not checked (the model has no embedding).
  intake(char const* where, arena& memory, std::int64_t vocabulary, std::int64_t classes)
      : where_(where), memory_(memory), vocabulary_(vocabulary), classes_(classes) {}

  /// Copies tokens into the arena, at `to`. Throws `error` unless each is in [0, vocabulary).
  void tokens(host_view const& to, std::span<std::int32_t const> from) const;
  /// Copies labels into the arena, at `to`; returns how many are not `ignored_label`. Throws `error` unless each of
  /// these labels is in [0, classes).
  std::int64_t labels(host_view const& to, std::span<std::int32_t const> from) const {
    return count_labels(where_, copy(to, from), classes_);
  }

private:
  /// Copies `from` into the arena, at `to`. Returns the copy if the host can address it, else `from`.
  std::span<std::int32_t const> copy(host_view const& to, std::span<std::int32_t const> from) const;

  char const* where_;
  arena& memory_;
  std::int64_t vocabulary_, classes_;
};

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/intake.ipp"
#endif
