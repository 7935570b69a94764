#pragma once

#include "constrain/train/corpus_samples.hpp"

#include "constrain/base/label.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens,
                                  std::int32_t* inputs, std::int32_t* labels) {
  auto const n = static_cast<std::size_t>(tokens);
  corpus.copy(sample * tokens, {inputs, n});
  corpus.copy_labels(sample * tokens + 1, {labels, n});
}

} // namespace constrain

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The object that a `sample_set` of a corpus holds. The functions are as in `sample_set`.
struct corpus_samples {
  data::corpus corpus;
  std::int64_t tokens;

  std::int64_t labels(std::int64_t sample) const { return corpus.labels(sample * tokens + 1, tokens); }
  void view(std::int64_t rows, batch_buffer& to) const {
    to.inputs.resize(static_cast<std::size_t>(rows * tokens)), to.labels.resize(to.inputs.size());
    to.batch = {{to.inputs.data(), to.inputs.size()},
                {to.labels.data(), to.labels.size()},
                0,
                corpus.fingerprint(),
                {},
                tokens};
  }
  void copy(std::int64_t sample, std::int64_t row, batch_buffer& to) const {
    copy_sample(corpus, sample, tokens, to.inputs.data() + row * tokens, to.labels.data() + row * tokens);
  }
  void pad(std::int64_t row, batch_buffer& to) const {
    std::fill_n(to.inputs.data() + row * tokens, tokens, 0);
    std::fill_n(to.labels.data() + row * tokens, tokens, ignored_label);
  }
};

[[gnu::cold]] CONSTRAIN_INLINE void check_vocabulary(char const* caller, std::int64_t corpus_vocabulary,
                                                     std::int64_t model_vocabulary) {
  if (model_vocabulary > 0 && corpus_vocabulary > model_vocabulary)
    throw error({caller, ": the corpus has a vocabulary of ", corpus_vocabulary,
                 " tokens, but the model's vocabulary has ", model_vocabulary, "; give the model `.vocabulary = ",
                 corpus_vocabulary, "`", corpus_vocabulary > 1 << 16 ? ", or check .bits of data::tokens" : ""});
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE sample_set samples_in(data::corpus const& corpus, std::int64_t tokens,
                                                     std::string_view caller, bool pads) {
  auto const size = data::samples(corpus.size(), tokens, caller);
  if (auto const text = corpus.text_length(); text % tokens != 0 && tokens % text != 0)
    throw error(
        {caller, caller.empty() ? "" : ": ", "each text of the corpus has ", counted(text, "token"),
         ", but a sequence has ", tokens,
         ", so some sequences would have parts of two texts; change the texts' length (.length of data::json_lines) "
         "or the tokens in a sequence, so that one is a multiple of the other"});
  auto const used = size * tokens + 1; // the tokens after these fill no sample
  sample_set::words const wording{
      "corpus", "corpus has", "this corpus", "more text",
      corpus.labels(used, corpus.size() - used) > 0
          ? "only its last tokens, which fill no sample, could be labels; give fewer `.tokens` per sequence or more "
            "text"
          : "its samples could only predict prompt tokens or padding; give a corpus with text"};
  return {std::make_shared<detail::corpus_samples const>(detail::corpus_samples{corpus, tokens}),
          {wording, size, corpus.fingerprint(), pads}};
}

} // namespace constrain
