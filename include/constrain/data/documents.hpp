#pragma once

#include "constrain/base/label.hpp"
#include "constrain/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// The labels of examples that are made from documents.
enum class document_labels : std::uint8_t {
  next_tokens, ///< The label of a token is the next token of its document. It is `ignored_label` if there is no next
               ///< token, or if the next token is part of a prompt.
  same_tokens, ///< The label of a token is the token itself, for masked language modeling (`examples::with_masks`);
               ///< prompt tokens have `ignored_label`.
  classes,     ///< Each document has one label, its class.
};

/// Documents of tokens in memory, each with an optional class. `pack` and `group_by_length` make examples from
/// documents.
class documents {
public:
  /// Appends a document. `tokens` may be a view of an earlier document. `label`: the class of the new document;
  /// `ignored_label`: none. `prompt`: true for each token of a prompt, which is an input but not a label; empty: no
  /// token is part of a prompt. Throws `error` if the document has no token, if a token is negative, if `label` is
  /// negative but not `ignored_label`, or if `prompt` is neither empty nor as long as `tokens`. If any exception is
  /// thrown, the documents are unchanged.
  void add(std::span<std::int32_t const> tokens, std::int32_t label = ignored_label,
           std::vector<bool> const& prompt = {});

  /// The number of documents.
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  /// The number of tokens of all documents.
  std::int64_t all_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// The tokens of document `i`, valid until a document is added. `i` must be at least 0 and below `size()`.
  std::span<std::int32_t const> tokens(std::int64_t i) const {
    auto const index = static_cast<std::size_t>(i);
    return std::span(tokens_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  /// Token `position` of document `i` as a label: the token, or `ignored_label` if it is part of a prompt. `i` must be
  /// at least 0 and below `size()`, and `position` must be an index in `tokens(i)`.
  std::int32_t token_label(std::int64_t i, std::size_t position) const {
    auto const index = begins_[static_cast<std::size_t>(i)] + position;
    return index < prompt_.size() && prompt_[index] ? ignored_label : tokens_[index];
  }
  /// The class of document `i`; `ignored_label`: none. `i` must be at least 0 and below `size()`.
  std::int32_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }

private:
  std::vector<std::int32_t> tokens_{}, labels_{};
  std::vector<bool> prompt_{};         ///< By token; tokens beyond its end are not part of a prompt.
  std::vector<std::size_t> begins_{0}; ///< Each document's first index in `tokens_`; then `tokens_.size()`. Empty after
                                       ///< a move from this object.
};

/// Splits a corpus into documents without classes. Each document includes the token `end` that ends it; the last
/// document may lack the token. The documents keep the prompt mask of the corpus. An empty corpus has no documents.
/// Throws `error` if `end` is not in the corpus's vocabulary, or if the documents exceed this machine's physical
/// memory. Also throws as `corpus::copy` does.
documents split_documents(corpus const& source, std::int32_t end);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/documents.ipp"
#endif
