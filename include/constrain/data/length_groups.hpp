#pragma once

#include "constrain/data/documents.hpp"
#include "constrain/data/examples.hpp"

#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `group_by_length`.
struct length_group_options {
  std::int64_t multiple = 8; // padded lengths are multiples of this value, which must be at least 1
  std::int64_t longest = 0;  // documents are cut to this many tokens, a multiple of `multiple`; 0: no limit
  document_labels labels = document_labels::next_tokens; // the labels of the examples
};

/// Documents that are padded to the same length.
struct length_group {
  std::int64_t length = 0; // tokens of each example
  examples padded;         // inputs: tokens [n, length], lengths [n]; labels: [n, length], or classes [n]
};

/// Groups documents by length: pads each document with token 0 to the smallest multiple of `.multiple` that holds it,
/// and returns one group per padded length, in ascending order. The examples of a group are in the order of the
/// documents. If tokens have labels, padding has ignored labels. All sequences of a task have one length, so a trainer
/// accepts only the group of that length. Throws `error` for an option out of range, if there is no document, if a
/// document has more than 2^31 - 1 tokens after the cut to `.longest`, or if the examples exceed this machine's
/// physical memory.
std::vector<length_group> group_by_length(documents const& source, length_group_options const& options = {});

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/length_groups.ipp"
#endif
