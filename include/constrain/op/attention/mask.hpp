#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/op/attention/attention.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Consecutive tokens [begin, end) of a sequence; empty if end <= begin.
template <class index> struct token_range {
  index begin, end;

  /// Whether the range contains a token of [first, first + count). For an empty range, the result may be true.
  CT_HOST_DEVICE bool overlaps(index first, index count) const { return first < end && first + count > begin; }
  /// Whether the range contains all tokens of [first, first + count).
  CT_HOST_DEVICE bool contains(index first, index count) const { return first >= begin && first + count <= end; }
};

template <class index, bool documents = true> class attention_mask;

/// The masks of all sequences in a call to attention. `operand`: the lengths or positions (input 3 of op::attention),
/// or null for neither; it becomes `values`, without a copy. `has_documents`: whether `values` holds positions.
template <class index> struct attention_masks {
  index tokens;    // of a sequence; the tokens of all sequences must fit `index` too
  index reach;     // how far back a query attends: distance of the furthest token in the window; `tokens`: no limit
  index lookahead; // how far ahead a query attends: 0 with a causal mask, else `reach`
  bool has_documents;
  std::int32_t const* values; // [sequences]: lengths, or [sequences, tokens]: positions in documents; null: neither

  attention_masks(attention_options const& o, std::int64_t tokens_of_sequence, std::int32_t const* operand)
      : tokens(static_cast<index>(tokens_of_sequence)),
        reach(o.window == 0 || o.window > tokens_of_sequence ? tokens : static_cast<index>(o.window - 1)),
        lookahead(o.causal ? 0 : reach), has_documents(o.documents && operand != nullptr), values(operand) {}

  /// The mask of sequence `sequence`. It refers to this object, which must outlive the mask. `documents`: as in
  /// `attention_mask`.
  template <bool documents = true> CT_HOST_DEVICE attention_mask<index, documents> for_sequence(index sequence) const {
    return {*this, sequence};
  }
};

/// Describes which keys each query of one sequence attends to. With every kind of mask, the keys to which a query
/// attends form one range, and so do the queries that attend to a key. Except for empty ranges, neither end of a range
/// decreases from one token to the next. So the first and the last token of a tile determine the range for the tile.
///
/// A token reaches back to token `first(token)`, which its document and the window determine. A query attends to a key
/// below `length` if the later of the two tokens reaches the other. With a causal mask, the query must also not be
/// earlier than the key. `documents`: whether there may be documents; a kernel without them needs fewer registers.
template <class index, bool documents> class attention_mask {
public:
  attention_masks<index> const& masks; // a reference, so that a kernel does not hold the masks in registers
  index const sequence;
  index const length; // tokens that are not padding: no query attends to keys at or beyond `length`

  CT_HOST_DEVICE attention_mask(attention_masks<index> const& sequence_masks, index sequence_index)
      : masks(sequence_masks), sequence(sequence_index),
        length(sequence_masks.values == nullptr || has_documents()
                   ? sequence_masks.tokens
                   : static_cast<index>(sequence_masks.values[sequence_index])) {}

  /// Whether positions in documents limit what a query attends to; always false without `documents`.
  CT_HOST_DEVICE bool has_documents() const { return documents && masks.has_documents; }
  /// The first token that `token` reaches. `token` may be beyond the last token.
  CT_HOST_DEVICE index first(index token) const {
    index distance = masks.reach;
    if (has_documents()) {
      index const row = token < masks.tokens ? token : masks.tokens - 1;
      index const position = masks.values[sequence * masks.tokens + row];
      if (position < distance) distance = position;
    }
    return token > distance ? token - distance : 0;
  }
  /// The token after the last token that reaches `token`. With documents, a binary search finds it, because `first`
  /// never decreases from one token to the next.
  CT_HOST_DEVICE index end(index token) const {
    index high = masks.tokens - token > masks.reach ? token + masks.reach + 1 : masks.tokens;
    if (!has_documents()) return high;
    for (index low = token + 1; low < high;) {
      index const middle = low + (high - low) / 2;
      if (first(middle) > token) high = middle;
      else low = middle + 1;
    }
    return high;
  }

  /// The keys to which at least one query from `first_query` to `last_query` attends. An empty range may have end <
  /// begin.
  CT_HOST_DEVICE token_range<index> keys(index first_query, index last_query) const {
    index const end_key = masks.lookahead == 0 ? last_query + 1 : end(last_query);
    return {first(first_query), end_key < length ? end_key : length};
  }
  CT_HOST_DEVICE token_range<index> keys(index query) const { return keys(query, query); }
  /// The queries that attend to at least one key from `first_key` to `last_key`.
  CT_HOST_DEVICE token_range<index> queries(index first_key, index last_key) const {
    if (first_key >= length) return {0, 0};
    return {first_query_of(first_key), end(last_key < length ? last_key : length - 1)};
  }

  /// The keys to which all queries from `first_query` to `last_query` attend.
  CT_HOST_DEVICE token_range<index> common_keys(index first_query, index last_query) const {
    index const end_key = masks.lookahead == 0 ? first_query + 1 : end(first_query);
    return {first(last_query), end_key < length ? end_key : length};
  }
  /// The queries that attend to all keys from `first_key` to `last_key`.
  CT_HOST_DEVICE token_range<index> common_queries(index first_key, index last_key) const {
    return {first_query_of(last_key), last_key < length ? end(first_key) : 0};
  }
  /// Whether a query attends to a key, without regard to documents.
  CT_HOST_DEVICE bool attends_in_window(index query, index key) const {
    return key < length && query - key <= masks.reach && key - query <= masks.lookahead;
  }
  /// Whether the later of two tokens reaches the earlier one: whether both are in one document, if there are documents,
  /// and at most `reach` apart.
  CT_HOST_DEVICE bool later_reaches_earlier(index a, index b) const { return a < b ? first(b) <= a : first(a) <= b; }
  /// Whether a query attends to no key. The result of such a query is 0.
  CT_HOST_DEVICE bool is_fully_masked(index query) const { return first(query) >= length; }

private:
  CT_HOST_DEVICE index first_query_of(index key) const { return masks.lookahead == 0 ? key : first(key); }
};

} // namespace constrain::detail
