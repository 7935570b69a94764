#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/op/attention/attention.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Consecutive tokens [begin, end) of a sequence; empty if `end` is not above `begin`.
template <class index> struct token_range { index begin, end; };

/// Which keys each query of one sequence attends to. With every kind of mask, a query attends to one range of keys, a
/// key is attended to by one range of queries, and the ends of these ranges never decrease from one token to the next.
/// So tiles need only their first and last tokens to know their ranges.
///
/// Tokens reach back to token `first(t)`, which their document and the window decide. Without a causal mask, query q
/// attends to key k if each reaches the other: the later of the two decides.
template <class index> struct attention_mask {
  index tokens;                  // of the sequence
  index length;                  // of them, those that are not padding; no query attends to keys at or beyond it
  index reach;                   // distance of the furthest token in the window
  bool causal;                   // whether a query attends only to itself and to earlier tokens
  std::int32_t const* positions; // [tokens]: of the tokens in their documents; null: the sequence is one document

  /// The first token that `token` reaches. `token` may be beyond the last token.
  CT_HOST_DEVICE index first(index token) const {
    index back = reach;
    if (positions != nullptr) {
      index const position = positions[token < tokens ? token : tokens - 1];
      if (position < back) back = position;
    }
    return token > back ? token - back : 0;
  }
  /// The end of the tokens that reach `token`.
  CT_HOST_DEVICE index end(index token) const {
    index high = tokens - token > reach ? token + reach + 1 : tokens;
    if (positions == nullptr) return high;
    for (index low = token + 1; low < high;) {
      index const middle = low + (high - low) / 2;
      if (first(middle) > token) high = middle;
      else low = middle + 1;
    }
    return high;
  }

  /// The keys to which queries `first_query` to `last_query` attend.
  CT_HOST_DEVICE token_range<index> keys(index first_query, index last_query) const {
    index const last = causal ? last_query + 1 : end(last_query);
    return {first(first_query), last < length ? last : length};
  }
  CT_HOST_DEVICE token_range<index> keys(index query) const { return keys(query, query); }
  /// The queries that attend to keys `first_key` to `last_key`, which must not be padding.
  CT_HOST_DEVICE token_range<index> queries(index first_key, index last_key) const {
    return {causal ? first_key : first(first_key), end(last_key)};
  }

  /// Whether one of the queries attends to one of the keys; the last ones are inclusive.
  CT_HOST_DEVICE bool any(index first_query, index last_query, index first_key, index last_key) const {
    return first_key < length && first(first_query) <= (last_key < length ? last_key : length - 1) &&
           (causal ? first_key : first(first_key)) <= last_query;
  }
  /// Whether all queries attend to all keys; the last ones are inclusive.
  CT_HOST_DEVICE bool all(index first_query, index last_query, index first_key, index last_key) const {
    return last_key < length && first(last_query) <= first_key && (causal ? last_key : first(last_key)) <= first_query;
  }
  CT_HOST_DEVICE bool attends(index query, index key) const { return all(query, query, key, key); }
  /// Whether a query attends to no key. Its result is 0.
  CT_HOST_DEVICE bool is_blind(index query) const { return first(query) >= length; }
};

/// The masks of the sequences of a call.
template <class index> struct attention_masks {
  index tokens, reach;
  bool causal, has_documents;
  std::int32_t const* values; // [sequences]: lengths, or [sequences, tokens]: positions in documents; null: neither

  attention_masks(attention_options const& o, std::int64_t tokens_of_sequence, std::int32_t const* operand)
      : tokens(static_cast<index>(tokens_of_sequence)),
        reach(o.window == 0 || o.window > tokens_of_sequence ? tokens : static_cast<index>(o.window - 1)),
        causal(o.causal), has_documents(o.documents), values(operand) {}

  CT_HOST_DEVICE attention_mask<index> of(index sequence) const {
    attention_mask<index> mask{tokens, tokens, reach, causal, nullptr};
    if (values == nullptr) return mask;
    if (has_documents) mask.positions = values + std::int64_t{sequence} * tokens;
    else mask.length = static_cast<index>(values[sequence]);
    return mask;
  }
};

} // namespace constrain::detail
