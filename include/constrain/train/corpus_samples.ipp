#pragma once

#include "constrain/train/corpus_samples.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens,
                                  std::int32_t* inputs, std::int32_t* labels) {
  auto const n = static_cast<std::size_t>(tokens);
  corpus.copy(sample * tokens, {inputs, n});
  corpus.copy_labels(sample * tokens + 1, {labels, n});
}

CONSTRAIN_INLINE void copy_samples(data::corpus const& corpus, std::int64_t first, std::int64_t samples,
                                   std::int64_t tokens, std::vector<std::int32_t>& inputs,
                                   std::vector<std::int32_t>& labels) {
  std::fill(inputs.begin(), inputs.end(), 0);
  std::fill(labels.begin(), labels.end(), ignored_label);
  auto const sequences = static_cast<std::int64_t>(inputs.size()) / tokens;
  for (std::int64_t i = 0; i < sequences && first + i < samples; ++i)
    copy_sample(corpus, first + i, tokens, inputs.data() + i * tokens, labels.data() + i * tokens);
}

} // namespace constrain

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// See `samples_in`.
class corpus_samples final : public sample_set {
public:
  corpus_samples(data::corpus const& corpus, std::int64_t tokens)
      : corpus_(corpus), tokens_(tokens), samples_(data::samples(corpus.size(), tokens)) {}

  words called() const override {
    return {"corpus", "corpus has", "this corpus", "more text",
            "every token of its samples is a prompt token; give a corpus with text"};
  }
  std::int64_t size() const override { return samples_; }
  std::uint64_t fingerprint() const override { return corpus_.fingerprint(); }
  std::int64_t labels(std::int64_t sample) const override { return corpus_.labels(sample * tokens_ + 1, tokens_); }
  bool has_labels() const override { return corpus_.labels(1, samples_ * tokens_) > 0; }
  bool every_sample_has_a_label() const override {
    bool all = true;
    bool const no_prompt = corpus_.labels(1, samples_ * tokens_) == samples_ * tokens_;
    for (auto sample = no_prompt ? samples_ : 0; sample < samples_ && all; ++sample) all = labels(sample) > 0;
    return all;
  }
  bool pads() const override { return true; }

  batch_buffer buffer(std::int64_t rows) const override {
    std::vector<std::int32_t> const empty(static_cast<std::size_t>(rows * tokens_));
    return {empty, empty};
  }
  void view(batch_buffer& to) const override {
    to.batch = {to.inputs, to.labels, 0, corpus_.fingerprint(), {}, tokens_};
  }
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const override {
    copy_sample(corpus_, sample, tokens_, to.inputs.data() + row * tokens_, to.labels.data() + row * tokens_);
  }
  void pad(std::int64_t row, batch_buffer& to) const override {
    std::fill_n(to.inputs.data() + row * tokens_, tokens_, 0);
    std::fill_n(to.labels.data() + row * tokens_, tokens_, ignored_label);
  }

private:
  data::corpus corpus_;
  std::int64_t tokens_, samples_;
};

CONSTRAIN_INLINE void check_vocabulary(std::int64_t corpus, std::int64_t model) {
  if (corpus > model)
    throw error({"the corpus has a vocabulary of ", corpus, " and the model one of ", model,
                 "; give the model `.vocabulary = ", corpus, "`"});
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE sample_set_pointer samples_in(data::corpus const& corpus, std::int64_t tokens) {
  return std::make_shared<detail::corpus_samples const>(corpus, tokens);
}

} // namespace constrain
