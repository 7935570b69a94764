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
CONSTRAIN_INLINE std::uint64_t fixed_point(double share) { return static_cast<std::uint64_t>(share * 0x1p32); }

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE void check_masking(masking const& options) {
  check_count("masking", ".vocabulary", options.vocabulary, 1);
  check_count("masking", ".mask_token", options.mask_token, 0);
  if (options.mask_token >= options.vocabulary)
    throw error({"masking: .mask_token is ", options.mask_token, ", but .vocabulary is ", options.vocabulary,
                 "; give a .vocabulary above .mask_token"});
  check_number("masking", ".share", options.share, number_range::above_zero_to_one);
  check_number("masking", ".masked", options.masked, number_range::from_zero_to_one);
  check_number("masking", ".random", options.random, number_range::from_zero_to_one);
  check_count("masking", ".span", options.span, 1);
  if (options.masked + options.random > 1)
    throw error({"masking: .masked is ", constrain::detail::number_text(options.masked), " and .random is ",
                 constrain::detail::number_text(options.random), "; give shares whose sum is at most 1"});
}

CONSTRAIN_INLINE std::int64_t count_masked(masking const& options, std::int64_t candidates) {
  if (candidates < 1) return 0;
  __extension__ using uint128 = unsigned __int128;
  auto const rounded =
      (static_cast<uint128>(detail::fixed_point(options.share)) * static_cast<uint128>(candidates) + (1u << 31)) >> 32;
  return std::min(std::max<std::int64_t>(static_cast<std::int64_t>(rounded), 1), candidates);
}

CONSTRAIN_INLINE void mask_tokens(masking const& options, std::int64_t epoch, std::int64_t example,
                                  std::span<std::int32_t> inputs, std::span<std::int32_t> labels) {
  check_masking(options);
  if (inputs.size() != labels.size())
    throw error({"mask_tokens: there are ", counted(inputs.size(), "token"), " and ", counted(labels.size(), "label"),
                 "; give one label per token"});
  auto const low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto const high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  constexpr std::uint32_t purpose = 0x6d61736b; // "mask": keeps these draws distinct from other draws with this seed
  auto const e = static_cast<std::uint64_t>(epoch), s = static_cast<std::uint64_t>(example);
  // Each epoch has a different key, so that the counter can hold the example and the position.
  auto const epoch_draw = philox({{low(e), high(e), 0, purpose}}, {{low(options.seed), high(options.seed)}});
  philox_key const key{{epoch_draw.word[0], epoch_draw.word[1]}};
  auto const masked = detail::fixed_point(options.masked), replaced = masked + detail::fixed_point(options.random);
  auto remaining = static_cast<std::int64_t>(labels.size()) - std::count(labels.begin(), labels.end(), ignored_label);
  auto wanted = count_masked(options, remaining);              // tokens to choose
  auto spans = (wanted + options.span - 1) / options.span;     // spans to begin
  auto const short_span = wanted - (spans - 1) * options.span; // tokens of the one span that may be shorter
  auto const short_span_draw = philox({{low(s), high(s), 0, purpose - 1}}, key);
  auto const short_span_index =
      static_cast<std::int64_t>((short_span_draw.word[0] * static_cast<std::uint64_t>(spans)) >> 32);
  std::int64_t remaining_in_span = 0; // tokens left in the current span
  std::uint32_t choice = 0;           // how the current span is replaced
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) continue;
    auto const draw = philox({{low(s), high(s), low(i), purpose + 1 + high(i)}}, key);
    // Selection sampling (Knuth, "The Art of Computer Programming", volume 2, algorithm S): each span counts as one
    // place, and `spans` of the remaining places must still be chosen.
    auto const places = static_cast<std::uint64_t>(remaining - (wanted - spans));
    if (remaining_in_span == 0 && static_cast<std::int64_t>((draw.word[0] * places) >> 32) < spans)
      choice = draw.word[1], remaining_in_span = --spans == short_span_index ? short_span : options.span;
    --remaining;
    if (remaining_in_span == 0) {
      labels[i] = ignored_label;
      continue;
    }
    --remaining_in_span, --wanted;
    if (choice < masked) inputs[i] = options.mask_token;
    else if (choice < replaced)
      inputs[i] = static_cast<std::int32_t>((draw.word[2] * static_cast<std::uint64_t>(options.vocabulary)) >> 32);
  }
}

} // namespace constrain::data
