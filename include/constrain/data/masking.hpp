#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// How tokens are masked for masked language modeling (Devlin et al. 2019, "BERT", section 3.1 and appendix A): some
/// tokens of each example are chosen at random. Some chosen tokens are replaced with the mask token, some with a random
/// token, and the others are kept. The model predicts the original token at each chosen position.
struct masking {
  std::int32_t mask_token = -1; // the token that replaces chosen tokens, such as [MASK]; at least 0 (-1 is refused)
  std::int32_t vocabulary = 0;  // random tokens are below this value, and `mask_token` must be too; at least 1
  double share = 0.15;          // share of chosen tokens among the tokens with a valid label, in (0, 1]
  double masked = 0.8;          // expected share of the chosen tokens that the mask token replaces, in [0, 1]
  double random = 0.1;    // expected share of chosen tokens that a random token replaces; `masked` + `random` at most 1
  std::int32_t span = 1;  // tokens of each span of chosen tokens, at least 1; one span may be shorter
  std::uint64_t seed = 0; // seed of the choice

  friend constexpr bool operator==(masking const&, masking const&) = default;
};

/// Throws `error` for a field of `options` that is out of range, and if `masked` + `random` is above 1.
void check_masking(masking const& options);

/// The number of tokens that are chosen from `candidates` tokens: `share` x `candidates`, rounded to nearest, but at
/// least 1; 0 if `candidates` is below 1. First, `share` is rounded down to a multiple of 2^-32. The fields of
/// `options` are not checked. The number does not depend on the epoch.
std::int64_t count_masked(masking const& options, std::int64_t candidates);

/// Masks the tokens of one example. `inputs`: the tokens. `labels`: the same tokens, with `ignored_label` where a token
/// must not be chosen, such as padding and [CLS]. `example`: index of the example in its arrays. Replaces or keeps each
/// chosen token in `inputs`, and writes `ignored_label` to the labels of all other tokens. With spans, all tokens of a
/// span are treated in the same way (Joshi et al. 2020, "SpanBERT", with spans of one length); spans do not overlap,
/// and skip tokens that must not be chosen. All placements of the spans are equally likely, up to rounding to 2^-32.
/// The result depends only on the arguments: with equal options, an example has the same masks in the same epoch on
/// every machine and in a resumed run. Throws `error` as `check_masking` does, and if the lengths differ.
void mask_tokens(masking const& options, std::int64_t epoch, std::int64_t example, std::span<std::int32_t> inputs,
                 std::span<std::int32_t> labels);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/masking.ipp"
#endif
