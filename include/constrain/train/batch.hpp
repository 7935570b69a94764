#pragma once

#include "constrain/base/error.hpp"
#include "constrain/data/order.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether the arrays that a batch looks at still hold it. One's own always do, as far as anybody can tell.
class batch_ticket {
public:
  batch_ticket() = default;
  /// Whether the arrays hold this batch.
  bool valid() const { return latest_ == nullptr || *latest_ == number_; }

private:
  friend class batch_tickets;
  batch_ticket(std::shared_ptr<std::atomic<std::int64_t> const> latest, std::int64_t number)
      : latest_(std::move(latest)), number_(number) {}

  std::shared_ptr<std::atomic<std::int64_t> const> latest_;
  std::int64_t number_ = 0;
};

/// The tickets of arrays that are filled again and again: the latest alone is valid, and none after the end of its
/// life.
class batch_tickets {
public:
  batch_tickets() = default;
  batch_tickets(batch_tickets const&) = delete;
  ~batch_tickets() { withdraw(); }

  /// From here on, earlier tickets are not valid; the latest one is.
  void withdraw() { ++*latest_; }
  batch_ticket latest() const { return {latest_, *latest_}; }

private:
  std::shared_ptr<std::atomic<std::int64_t>> latest_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// What one optimizer step reads: [micro-batches, sequences, tokens], borrowed until the step returns.
struct batch {
  std::span<std::int32_t const> inputs; // tokens
  std::span<std::int32_t const> labels; // of each token, or of each sequence
  std::int64_t valid_labels = 0;        // those that are not `ignored_label`
  std::uint64_t corpus = 0;             // fingerprint of the corpus it is from, 0 for one's own arrays
  data::position next{};                // where that corpus goes on after it
  std::int64_t sequence = 0;            // tokens of each sequence; 0 where nobody said
  batch_ticket ticket{};                // of the arrays, where a range of batches fills them
};

namespace detail {

/// Refuses arrays where a batch is needed.
template <class array> struct step_takes_a_batch {
  static_assert(sizeof(array) == 0, "step: it takes a batch; write t.step(t.batch(inputs, labels))");
};

/// Throws unless `values` has `length` elements, in the order that `shape` says.
inline void check_length(char const* where, char const* what, std::span<std::int32_t const> values, std::int64_t length,
                         char const* shape) {
  if (values.size() != static_cast<std::size_t>(length))
    throw error({where, ": ", what, " has ", values.size(), " elements where ", length, " are needed (", shape,
                 "); pass an array of that length"});
}

/// What a trainer's step takes.
struct batch_lengths {
  std::int64_t inputs, labels, sequence;
};

/// Throws unless a batch is one that this trainer takes, and its arrays still hold it.
[[gnu::noinline]] inline void check_batch(batch const& w, batch_lengths const& needed) {
  if (!w.ticket.valid())
    throw error(
        "step: the batch is of batches(corpus) that went on or ended since, and its arrays are filled anew; step each "
        "batch before the next one is asked for, or keep copies of the arrays and pass them to batch(inputs, labels)");
  if (w.inputs.size() != static_cast<std::size_t>(needed.inputs) ||
      w.labels.size() != static_cast<std::size_t>(needed.labels))
    throw error({"step: the batch has ", w.inputs.size(), " inputs and ", w.labels.size(),
                 " labels where this trainer takes ", needed.inputs, " and ", needed.labels,
                 "; take it from this trainer's batches(corpus) or batch(inputs, labels)"});
  if (w.sequence != 0 && w.sequence != needed.sequence)
    throw error({"step: the batch has sequences of ", w.sequence, " tokens where this trainer takes ", needed.sequence,
                 "; take it from this trainer's batches(corpus) or batch(inputs, labels)"});
}

} // namespace detail

} // namespace constrain
