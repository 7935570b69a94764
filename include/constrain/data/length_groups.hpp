#pragma once

#include "constrain/data/documents.hpp"
#include "constrain/data/examples.hpp"

#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `group_by_length`.
struct length_group_options {
  std::int64_t multiple = 8; // lengths are multiples of this number, at least 1
  std::int64_t longest = 0;  // documents are cut to this many tokens, a multiple of `multiple`; 0: none is cut
  document_labels labels = document_labels::next_tokens; // the labels of the examples
};

/// Documents that are padded to the same length.
struct length_group {
  std::int64_t length = 0; // tokens of each example
  examples padded;         // inputs: tokens [n, length], lengths [n]; labels: [n, length] or, of classes, [n]
};

/// Groups documents by length: each is padded with token 0 to the next multiple of `.multiple`, and documents of the
/// same padded length form a group. The groups are in the order of their lengths, and the examples of a group in the
/// order of the documents. Padding has ignored labels. A task has one length of sequences, so a trainer takes the group
/// whose length its micro-batch has. Throws `error` for an option out of range, if there is no document, or if the
/// examples exceed this machine's physical memory.
std::vector<length_group> group_by_length(documents const& all, length_group_options const& options = {});

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/length_groups.ipp"
#endif
