#pragma once

#include "constrain/base/array_view.hpp"
#include "constrain/data/order.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Tells whether the arrays of a batch still hold the batch's data. When a `batch_range` advances or is destroyed, the
/// tickets of all batches that it has made so far become invalid. A default-constructed ticket, for the caller's own
/// arrays, is always valid.
class batch_ticket {
public:
  batch_ticket() = default;
  /// False if the `batch_range` of the batch has advanced or been destroyed.
  bool valid() const { return latest_ == nullptr || *latest_ == number_; }

private:
  friend class batch_tickets;
  batch_ticket(std::shared_ptr<std::atomic<std::int64_t> const> latest, std::int64_t number)
      : latest_(std::move(latest)), number_(number) {}

  std::shared_ptr<std::atomic<std::int64_t> const> latest_;
  std::int64_t number_ = 0;
};

/// Issues the tickets of a `batch_range`. `withdraw` and the destructor invalidate all tickets issued so far.
class batch_tickets {
public:
  batch_tickets() = default;
  batch_tickets(batch_tickets const&) = delete;
  ~batch_tickets() { withdraw(); }

  /// Invalidates every ticket issued so far.
  void withdraw() { ++*latest_; }
  /// A ticket that is valid until the next `withdraw`.
  batch_ticket latest() const { return {latest_, *latest_}; }

private:
  std::shared_ptr<std::atomic<std::int64_t>> latest_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// The arrays of a batch that is drawn from examples, has several inputs or labels, holds floating-point numbers, or
/// has labels that the trainer or inference object has shifted.
struct batch_arrays {
  array_list inputs;                     // one array for each input of the model
  array_list labels;                     // one array for each label of the objective
  std::vector<std::int32_t> shifted;     // shifted copy of the caller's labels; `labels` views this copy; empty: none
  std::unique_ptr<std::byte[]> memory{}; // the elements that `inputs` and `labels` view; null: not a batch of examples
};

/// One optimizer step's data for this rank, as views of arrays that must live until `step` or `enqueue` returns.
/// `trainer::batches` and `trainer::batch` create batches.
struct batch {
  // The first input, for example token ids [micro-batches, sequences, tokens]; empty if it is floating-point.
  std::span<std::int32_t const> inputs;
  // The first labels, for example one per token or one per sequence; empty if they are floating-point.
  std::span<std::int32_t const> labels;
  std::int64_t valid_labels = 0; // elements of the first labels other than `ignored_label`; all, if floating-point
  std::uint64_t corpus = 0;      // hash of the corpus or examples that the batch is from; 0: the caller's arrays
  data::position next{};         // position in the corpus or examples after the samples of all ranks
  std::int64_t sequence = 0;     // tokens in a sequence; 0: unknown, not checked by `step`
  batch_ticket ticket{};         // valid until the batch's `batch_range` advances or is destroyed
  std::shared_ptr<batch_arrays const> arrays{}; // all arrays; null: only `inputs` and `labels`

  /// The arrays for all inputs of the model.
  array_list every_input() const { return arrays == nullptr ? array_list(inputs) : arrays->inputs; }
  /// The arrays for all labels of the objective.
  array_list every_label() const { return arrays == nullptr ? array_list(labels) : arrays->labels; }
};

namespace detail {

/// The compile-time error for `step(inputs, labels)`.
template <class array> struct step_takes_a_batch {
  static_assert(sizeof(array) == 0, "step takes a batch, not arrays; write t.step(t.batch(inputs, labels))");
};

} // namespace detail

} // namespace constrain
