#pragma once

#include "constrain/data/documents.hpp"
#include "constrain/data/examples.hpp"

#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `pack`.
struct packing_options {
  std::int64_t length = 0;                               // tokens of a row, at least 1
  document_labels labels = document_labels::next_tokens; // the labels of the tokens; not `classes`
};

/// Packs documents into rows of `.length` tokens, as examples for a model with two inputs: tokens [rows, length], and
/// positions [rows, length], of each token in its document, as `self_attention` with `.documents` and
/// `rotary_embedding` read them. A document of at most `.length` tokens is never split. A longer document is first cut
/// into pieces of `.length` tokens and a last, shorter piece. Pieces count as documents of their own, but the last
/// token of a piece has the next piece's first token as its label. Then the longest pieces are placed first, each into
/// the row with the least room that suffices (best-fit decreasing, as in Ding et al. 2024, "Fewer Truncations Improve
/// Language Modeling"). The room that is left in a row has token 0 and ignored labels, and counts as one document.
/// Equal documents give equal rows on every machine. Throws `error` for an option out of range, if there is no
/// document, or if the rows exceed this machine's physical memory.
examples pack(documents const& all, packing_options const& options);

/// Checks positions in documents [rows, `length`] that a program has made itself: the position of a token is 0, or that
/// of the token before it in the row plus 1. Throws `error`, with row and index, for another position. Also throws
/// `error` if `length` is below 1, or if the last row is incomplete.
void check_positions(std::span<std::int32_t const> positions, std::int64_t length);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/packing.ipp"
#endif
