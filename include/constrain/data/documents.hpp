#pragma once

#include "constrain/base/label.hpp"
#include "constrain/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// The labels that examples made of documents have.
enum class document_labels : std::uint8_t {
  next_tokens, ///< The label of a token is the next token of its document; the last token has `ignored_label`.
  same_tokens, ///< The label of a token is the token, for masked language modeling (`examples::with_masks`).
  classes,     ///< Each document has one label, its class.
};

/// Documents of tokens in memory, each with an optional class. `pack` and `group_by_length` make examples of them.
class documents {
public:
  /// Appends a document. Throws `error` if it has no token, or if a token or the class is negative. (The class may also
  /// be `ignored_label`.)
  void add(std::span<std::int32_t const> tokens, std::int32_t label = ignored_label);

  /// The number of documents.
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  /// The number of tokens of all documents.
  std::int64_t all_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// The tokens of document `i`, valid until a document is added. 0 <= `i` < `size()`, also below.
  std::span<std::int32_t const> tokens(std::int64_t i) const {
    auto const at = static_cast<std::size_t>(i);
    return std::span(tokens_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
  }
  /// The class of document `i`.
  std::int32_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }

private:
  std::vector<std::int32_t> tokens_{}, labels_{};
  std::vector<std::size_t> begins_{0}; ///< Of each document, and the end of the last one.
};

/// The documents of a corpus, each of which ends with the token `end` (the last one may lack it). The token belongs to
/// its document. Throws `error` if `end` is not in the corpus's vocabulary, if the corpus cannot be read, or if the
/// documents exceed this machine's physical memory.
documents split_documents(corpus const& from, std::int32_t end);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/documents.ipp"
#endif
