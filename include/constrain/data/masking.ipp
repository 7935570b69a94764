#pragma once

#include "constrain/data/masking.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/label.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/device/random.hpp"

#include <algorithm>
#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::data {

namespace detail {

/// A share in units of 2^-32. (Integers give the same choices on every machine.)
CONSTRAIN_INLINE std::uint64_t in_words(double share) { return static_cast<std::uint64_t>(share * 0x1p32); }

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE void check_masking(masking const& how) {
  check_count("masking", ".vocabulary", how.vocabulary, 1);
  check_count("masking", ".mask_token", how.mask_token, 0);
  if (how.mask_token >= how.vocabulary)
    throw error({"masking: .mask_token is ", how.mask_token, ", but .vocabulary is ", how.vocabulary,
                 "; give a vocabulary that has the mask token"});
  if (how.share != 0) check_number("masking", ".share", how.share, number_range::from_zero_to_one);
  else check_number("masking", ".share", how.share, number_range::above_zero); // 0 gets a different error message
  check_number("masking", ".masked", how.masked, number_range::from_zero_to_one);
  check_number("masking", ".random", how.random, number_range::from_zero_to_one);
  check_count("masking", ".span", how.span, 1);
  if (how.masked + how.random > 1)
    throw error({"masking: .masked is ", constrain::detail::number_text(how.masked), " and .random is ",
                 constrain::detail::number_text(how.random), "; give shares whose sum is at most 1"});
}

CONSTRAIN_INLINE std::int64_t count_masked(masking const& how, std::int64_t candidates) {
  if (candidates < 1) return 0;
  __extension__ using wide = unsigned __int128;
  auto const rounded =
      (static_cast<wide>(detail::in_words(how.share)) * static_cast<wide>(candidates) + (1u << 31)) >> 32;
  return std::min(std::max<std::int64_t>(static_cast<std::int64_t>(rounded), 1), candidates);
}

CONSTRAIN_INLINE void mask_tokens(masking const& how, std::int64_t epoch, std::int64_t example,
                                  std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
  check_masking(how);
  if (inputs.size() != labels.size())
    throw error({"mask_tokens: there are ", counted(inputs.size(), "token"), " and ", counted(labels.size(), "label"),
                 "; give one label per token"});
  auto const low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto const high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  constexpr std::uint32_t purpose = 0x6d61736b; // "mask": keeps these draws distinct from other draws with this seed
  auto const e = static_cast<std::uint64_t>(epoch), s = static_cast<std::uint64_t>(example);
  // Each epoch has a different key, so that the counter can hold the example and the position.
  auto const of_epoch = philox({{low(e), high(e), 0, purpose}}, {{low(how.seed), high(how.seed)}});
  philox_key const key{{of_epoch.word[0], of_epoch.word[1]}};
  auto const masked = detail::in_words(how.masked), replaced = masked + detail::in_words(how.random);
  auto left = static_cast<std::int64_t>(labels.size()) - std::count(labels.begin(), labels.end(), ignored_label);
  auto wanted = count_masked(how, left);             // tokens to choose
  auto spans = (wanted + how.span - 1) / how.span;   // spans to begin
  auto const rest = wanted - (spans - 1) * how.span; // tokens of the one span that may be shorter
  auto const draw_of_rest = philox({{low(s), high(s), 0, purpose - 1}}, key);
  auto const shorter = static_cast<std::int64_t>((draw_of_rest.word[0] * static_cast<std::uint64_t>(spans)) >> 32);
  std::int64_t in_span = 0; // tokens left of the current span
  std::uint32_t choice = 0; // how the current span is replaced
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) continue;
    auto const draw = philox({{low(s), high(s), low(i), purpose + 1 + high(i)}}, key);
    // Selection sampling (Knuth, "The Art of Computer Programming", volume 2, algorithm S): each span counts as one
    // place, and `spans` of the remaining places must still be chosen.
    auto const places = static_cast<std::uint64_t>(left - (wanted - spans));
    if (in_span == 0 && static_cast<std::int64_t>((draw.word[0] * places) >> 32) < spans)
      choice = draw.word[1], in_span = --spans == shorter ? rest : how.span;
    --left;
    if (in_span == 0) {
      labels[i] = ignored_label;
      continue;
    }
    --in_span, --wanted;
    if (choice < masked) inputs[i] = how.mask_token;
    else if (choice < replaced)
      inputs[i] = static_cast<std::int32_t>((draw.word[2] * static_cast<std::uint64_t>(how.vocabulary)) >> 32);
  }
}

} // namespace constrain::data
