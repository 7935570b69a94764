#pragma once

#include "constrain/data/length_groups.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/data/memory_check.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// The arrays of a group of n documents: tokens [n, length], lengths [n], and labels [n, length] or classes [n].
struct group_arrays {
  std::vector<std::int32_t> tokens{}, lengths{}, labels{};
};

/// A document and its padded length.
struct padded_document {
  std::int64_t document = 0, length = 0;
};

/// All documents, sorted by padded length. Documents of equal padded length keep their order. Throws `error` for a
/// document of more than 2^31 - 1 tokens after the cut to `.longest`.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<padded_document> by_length(documents const& all,
                                                                      length_group_options const& options) {
  std::vector<padded_document> order;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    auto length = static_cast<std::int64_t>(all.tokens(i).size());
    if (options.longest > 0) length = std::min(length, options.longest);
    if (constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max(); length > most)
      throw error({"group_by_length: document ", i, " has ", length, " tokens, more than ", most, "; set .longest"});
    order.push_back({i, (length - 1) / options.multiple * options.multiple + options.multiple});
  }
  constrain::detail::heap_sort(order, [](padded_document const& a, padded_document const& b) {
    return a.length < b.length || (a.length == b.length && a.document < b.document);
  });
  return order;
}

/// Appends the tokens, the length and the labels of a document to the arrays of its group, `to`.
CONSTRAIN_INLINE void append_padded(documents const& all, padded_document const& one, document_labels labels,
                                    group_arrays& to) {
  auto const tokens = all.tokens(one.document);
  auto const padded = static_cast<std::size_t>(one.length), kept = std::min(tokens.size(), padded);
  auto const begin = to.tokens.size();
  to.tokens.insert(to.tokens.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept));
  to.tokens.resize(begin + padded);
  to.lengths.push_back(static_cast<std::int32_t>(kept));
  if (labels == document_labels::classes) return to.labels.push_back(all.label(one.document));
  // The label of a token is itself or the next token. If the document is cut, the last kept token has a next token too.
  std::size_t const shift = labels == document_labels::next_tokens ? 1 : 0;
  for (auto i = shift; i < std::min(kept + shift, tokens.size()); ++i)
    to.labels.push_back(all.token_label(one.document, i));
  to.labels.resize(begin + padded, ignored_label);
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE std::vector<length_group> group_by_length(documents const& all,
                                                                         length_group_options const& options) {
  check_count("length_group_options", ".multiple", options.multiple, 1);
  check_count("length_group_options", ".longest", options.longest, 0);
  if (options.longest % options.multiple != 0)
    throw error({"length_group_options: .longest is ", options.longest, ", which is not a multiple of .multiple, ",
                 options.multiple, "; give a multiple"});
  if (options.labels > document_labels::classes)
    throw error("length_group_options: .labels is not one of next_tokens, same_tokens and classes; give one of these");
  if (all.size() == 0) throw error("group_by_length: there are no documents; add at least one");
  auto const order = detail::by_length(all, options);
  std::int64_t tokens = 0;
  for (auto const& each : order) {
    detail::check_memory("a padded document", each.length, 2 * sizeof(std::int32_t));
    detail::check_memory("the padded data", tokens += each.length, 2 * sizeof(std::int32_t));
  }
  std::vector<length_group> groups;
  for (std::size_t i = 0; i < order.size();) {
    auto const length = order[i].length;
    auto const to = std::make_shared<detail::group_arrays>();
    for (; i < order.size() && order[i].length == length; ++i)
      detail::append_padded(all, order[i], options.labels, *to);
    groups.push_back({length, examples::from_storage(to, {to->tokens, to->lengths}, to->labels)});
  }
  return groups;
}

} // namespace constrain::data
