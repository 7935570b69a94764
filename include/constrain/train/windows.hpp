#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/train/window.hpp"

#include <iterator>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One sample of a corpus: tokens, and the same one further as labels, those that are given left out.
inline void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens, std::int32_t* inputs,
                        std::int32_t* labels) {
  auto const n = static_cast<std::size_t>(tokens);
  corpus.copy(sample * tokens, {inputs, n});
  corpus.copy_labels(sample * tokens + 1, {labels, n});
}

/// The endless windows of a corpus from a position on; an input range. Its one buffer is filled anew for each window.
/// Of `ranks` processes each reads its own samples of a window.
class window_range {
public:
  window_range(data::corpus const& corpus, std::uint64_t seed, data::position from, std::int64_t sequences, std::int64_t tokens,
               int rank = 0, int ranks = 1)
      : corpus_(corpus), seed_(seed), position_(from), sequences_(sequences), tokens_(tokens), rank_(rank), ranks_(ranks),
        samples_(data::samples(corpus.size(), tokens)), inputs_(static_cast<std::size_t>(sequences * tokens)), labels_(inputs_) {}

  class iterator {
  public:
    using value_type = window;
    using difference_type = std::ptrdiff_t;
    explicit iterator(window_range& owner) : owner_(&owner) {}
    window const& operator*() const { return owner_->current_; }
    iterator& operator++() {
      owner_->fill();
      return *this;
    }
    void operator++(int) { ++*this; }

  private:
    window_range* owner_;
  };

  iterator begin() {
    fill();
    return iterator(*this);
  }
  std::unreachable_sentinel_t end() const { return {}; }

private:
  void fill() {
    for (std::int64_t i = 0; i < ranks_ * sequences_; ++i) {
      if (auto const mine = i - rank_ * sequences_; 0 <= mine && mine < sequences_)
        copy_sample(corpus_, position_.in_corpus(seed_, samples_), tokens_, inputs_.data() + mine * tokens_, labels_.data() + mine * tokens_);
      position_.advance(samples_);
    }
    current_ = {inputs_, labels_, sequences_ * tokens_, corpus_.fingerprint(), position_};
  }

  data::corpus corpus_;
  std::uint64_t seed_;
  data::position position_;
  std::int64_t sequences_, tokens_, rank_, ranks_, samples_;
  std::vector<std::int32_t> inputs_, labels_;
  window current_;
};

namespace detail {

/// Throws where a corpus has tokens that the model does not know.
inline void check_vocabulary(std::int64_t corpus, std::int64_t model) {
  if (corpus > model)
    throw error("the corpus has a vocabulary of " + std::to_string(corpus) + " and the model one of " +
                std::to_string(model) + "; give the model `.vocabulary = " + std::to_string(corpus) + "`");
}

} // namespace detail

} // namespace constrain
