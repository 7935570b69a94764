#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/train/sample_set.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Copies sample number `sample` of a corpus (see data/order.hpp) to inputs [tokens] and labels [tokens]. Label i is
/// the token after input i, or `ignored_label` if that token belongs to a prompt. Throws as `data::corpus::copy` does.
void copy_sample(data::corpus const& corpus, std::int64_t sample, std::int64_t tokens, std::int32_t* inputs,
                 std::int32_t* labels);

/// The samples of a corpus: each has `tokens` tokens as inputs, and its labels are the next tokens. Throws `error` if
/// `tokens` is below 1, if the corpus is too short for one sample, or if neither `tokens` nor `corpus.text_length()` is
/// a multiple of the other. `caller`: as in `data::samples`. `pads`: whether padded rows leave all results unchanged
/// (`port_facts::pads`).
sample_set samples_in(data::corpus const& corpus, std::int64_t tokens, std::string_view caller = {}, bool pads = true);

namespace detail {

/// Compile-time error if a task trains on a corpus, but needs inputs or labels that a corpus does not have.
template <bool takes_tokens, bool labels_tokens, bool accepts_next_tokens> struct corpus_has_batches {
  static_assert(takes_tokens,
                "batches(corpus): a corpus is one sequence of tokens, but the model takes other inputs; "
                "pass ct::data::examples(inputs, labels), or write batch(inputs, labels), where several inputs are a "
                "list: {first, second}");
  static_assert(labels_tokens,
                "batches(corpus): a corpus labels every token with the next one, but the task has other labels; "
                "pass ct::data::examples(inputs, labels), or write batch(inputs, labels)");
  static_assert(!takes_tokens || !labels_tokens || accepts_next_tokens,
                "batches(corpus): a corpus labels every token with the next one, but the labels of the task's "
                "objective are not the next tokens; pass ct::data::examples(inputs, labels), for ct::masked_lm with "
                ".with_masks(...), train with ct::causal_lm, or, if the labels of your own objective are the next "
                "tokens, write labels_are_next_tokens = true in it");
};
/// Compile-time error if a task is evaluated on a corpus, but needs inputs or labels that a corpus does not have.
template <bool fits> struct corpus_is_evaluated {
  static_assert(fits, "evaluate(corpus): a corpus is one sequence of tokens, and the label of every token is the "
                      "next token, but the task has other inputs or labels; pass ct::data::examples(inputs, "
                      "labels), for ct::masked_lm with .with_masks(...), or write evaluate(inputs, labels)");
};

/// Throws `error`, which begins with `caller`, if the vocabulary of the corpus (`corpus_vocabulary`) is larger than the
/// model's (`model_vocabulary`; 0: unknown, and not checked).
void check_vocabulary(char const* caller, std::int64_t corpus_vocabulary, std::int64_t model_vocabulary);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/corpus_samples.ipp"
#endif
