#pragma once

#include "constrain/data/documents.hpp"
#include "constrain/data/examples.hpp"

#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `pack`.
struct packing_options {
  std::int64_t length = 0;                               // tokens of a row, from 1 to 2147483647
  document_labels labels = document_labels::next_tokens; // the labels of the tokens; not `classes`
};

/// Packs documents into rows of `.length` tokens. The examples have labels [rows, length] and two inputs: the tokens
/// [rows, length], and the position of each token in its document [rows, length], which `rotary_embedding`,
/// `position_embedding`, and `self_attention` with `.documents` read. A document of at most `.length` tokens is never
/// split. A longer document is first cut into chunks of `.length` tokens; the last chunk may be shorter. Each chunk
/// counts as a separate document, but with `next_tokens`, the label of its last token is the first token of the
/// document's next chunk (ignored if there is no such token, or if it is part of a prompt). Then each chunk, longest
/// first, is placed into the fullest row in which it fits (best-fit decreasing, as in Ding et al. 2024, "Fewer
/// Truncations Improve Language Modeling"). The padding at the end of a row has token 0, position 0 and ignored labels:
/// each padding token counts as a document of one token, so that padding never has a larger position than the
/// documents. Equal documents give equal rows on every machine. Throws `error` for an option out of range, if there is
/// no document, or if the rows exceed this machine's physical memory.
examples pack(documents const& source, packing_options const& options);

/// Checks an array of positions [rows, `length`] that `pack` has not made: each position must be 0, or 1 more than the
/// position of the previous token in the row. Throws `error`, with row and index, for any other position. Also throws
/// `error` if `length` is below 1, or if the last row is incomplete. `positions` may be empty.
void check_positions(std::span<std::int32_t const> positions, std::int64_t length);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/packing.ipp"
#endif
