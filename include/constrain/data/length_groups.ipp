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
[[gnu::cold]] CONSTRAIN_INLINE std::vector<padded_document> sorted_by_length(documents const& source,
                                                                             length_group_options const& options) {
  std::vector<padded_document> order;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    auto length = static_cast<std::int64_t>(source.tokens(i).size());
    if (options.longest > 0) length = std::min(length, options.longest);
    if (constexpr std::int64_t maximum = std::numeric_limits<std::int32_t>::max(); length > maximum)
      throw error({"group_by_length: document ", i, " keeps ", length,
                   " tokens; set .longest to a multiple of .multiple, ", options.multiple, ", that is at most ",
                   maximum});
    order.push_back({i, (length - 1) / options.multiple * options.multiple + options.multiple});
  }
  constrain::detail::heap_sort(order, [](padded_document const& a, padded_document const& b) {
    return a.length < b.length || (a.length == b.length && a.document < b.document);
  });
  return order;
}

/// Appends the tokens, the length and the labels of a document to the arrays of its group, `arrays`.
CONSTRAIN_INLINE void append_padded(documents const& source, padded_document const& entry, document_labels labels,
                                    group_arrays& arrays) {
  auto const tokens = source.tokens(entry.document);
  auto const padded_length = static_cast<std::size_t>(entry.length),
             cut_length = std::min(tokens.size(), padded_length);
  auto const begin = arrays.tokens.size();
  arrays.tokens.insert(arrays.tokens.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(cut_length));
  arrays.tokens.resize(begin + padded_length);
  arrays.lengths.push_back(static_cast<std::int32_t>(cut_length));
  if (labels == document_labels::classes) return arrays.labels.push_back(source.label(entry.document));
  // The label of a token is the token itself or the next one. If the document is cut, the last kept token has a next
  // token too.
  std::size_t const shift = labels == document_labels::next_tokens ? 1 : 0;
  for (auto i = shift; i < std::min(cut_length + shift, tokens.size()); ++i)
    arrays.labels.push_back(source.token_label(entry.document, i));
  arrays.labels.resize(begin + padded_length, ignored_label);
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE std::vector<length_group> group_by_length(documents const& source,
                                                                         length_group_options const& options) {
  check_count("length_group_options", ".multiple", options.multiple, 1);
  check_count("length_group_options", ".longest", options.longest, 0);
  if (options.longest % options.multiple != 0)
    throw error({"length_group_options: .longest is ", options.longest, ", which is not a multiple of .multiple, ",
                 options.multiple, "; give a multiple"});
  if (options.labels > document_labels::classes)
    throw error("length_group_options: .labels is not one of next_tokens, same_tokens and classes; give one of these");
  if (source.size() == 0) throw error("group_by_length: there are no documents; add at least one");
  auto const order = detail::sorted_by_length(source, options);
  // A token and, unless each document has only one label, the label of the token.
  std::size_t const token_bytes = (options.labels == document_labels::classes ? 1 : 2) * sizeof(std::int32_t);
  std::int64_t tokens = 0;
  for (auto const& entry : order) {
    // The first check ensures that the sum in the second does not overflow.
    detail::check_memory("a document padded to a multiple of .multiple", entry.length, token_bytes, "token",
                         "give a smaller .multiple or shorter documents");
    detail::check_memory("the padded data", tokens += entry.length, token_bytes);
  }
  std::vector<length_group> groups;
  for (std::size_t i = 0; i < order.size();) {
    auto const length = order[i].length;
    auto const arrays = std::make_shared<detail::group_arrays>();
    for (; i < order.size() && order[i].length == length; ++i)
      detail::append_padded(source, order[i], options.labels, *arrays);
    groups.push_back({length, examples::from_storage(arrays, {arrays->tokens, arrays->lengths}, arrays->labels)});
  }
  return groups;
}

} // namespace constrain::data
