#pragma once

#include "constrain/comm/fingerprint.hpp"

#include "constrain/base/concat.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void fingerprint::add_field(std::string_view field) {
  for (char const c : field) text_ += c == '\0' ? '?' : c;
  text_ += '\0';
}

[[gnu::cold]] CONSTRAIN_INLINE void fingerprint::add_hash(std::string_view name, std::uint64_t hash) {
  char digits[16];
  auto const* const end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  add(name, std::string_view(static_cast<char const*>(digits), static_cast<std::size_t>(end - digits)));
}

} // namespace constrain

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Removes and returns the first field of `text`. Also removes the '\0' that ends the field.
[[gnu::cold]] CONSTRAIN_INLINE std::string_view take_field(std::string_view& text) {
  auto const field = text.substr(0, text.find('\0'));
  text.remove_prefix(std::min(field.size() + 1, text.size()));
  return field;
}

/// The end of the error message for different fingerprints in the call `call`: what the user can do.
[[gnu::cold]] CONSTRAIN_INLINE char const* agreement_remedy(joint_call call) {
  if (call == joint_call::set) return "set the same setting to the same value on all ranks";
  if (call == joint_call::scale_learning_rate) return "pass the same factor on all ranks";
  return "start all ranks with the same program, options and data";
}

/// Throws the `error` for different fingerprints, with the name of the first value that differs, and both values.
/// `first`, `other`: the texts of the fingerprints of rank 0 and of rank `rank`. `call`: the call that compares them.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void throw_difference(joint_call call, std::string_view first,
                                                               std::string_view other, int rank) {
  while (!first.empty() || !other.empty()) {
    std::string const name(take_field(first)), value(take_field(first));
    std::string const other_name(take_field(other)), other_value(take_field(other));
    if (name == other_name && value == other_value) continue;
    auto const& display_name = name.empty() ? other_name : name;
    auto const text_of = [&](std::string const& n, std::string const& v) {
      return n != display_name ? "absent" : v.empty() ? "empty" : v;
    };
    throw_agreed(concat({"the ranks do not agree: ", display_name, " is ", text_of(name, value), " on rank 0 and ",
                         text_of(other_name, other_value), " on rank ", rank, "; ", agreement_remedy(call)}));
  }
  throw_agreed(concat({"the ranks do not agree on the values that they compare; ", agreement_remedy(call)}));
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void check_ranks_agree(communicator& world, joint_call call, fingerprint const& local) {
  int const ranks = world.size();
  if (ranks == 1) return;
  world.entered(name_of(call));
  detail::agreed_failure() = nullptr;
  detail::vote votes[communicator::maximum_size];
  std::int64_t lengths[communicator::maximum_size];
  auto const& text = local.text();
  votes[world.rank()] = {static_cast<std::int64_t>(call), 0, 0, static_cast<std::int64_t>(text.size()),
                         detail::hash_of(text)};
  detail::all_gather_values(world, votes);
  bool all_equal = true;
  for (int rank = 0; rank < ranks; ++rank) {
    if (votes[rank].call != votes[0].call) detail::throw_disagreement(world, votes, nullptr, {});
    all_equal = all_equal && votes[rank].hash == votes[0].hash;
    lengths[rank] = votes[rank].length;
  }
  if (all_equal) return;
  auto const texts = detail::all_gather_texts(world, text, lengths);
  std::string_view remaining = texts;
  auto const first = remaining.substr(0, static_cast<std::size_t>(lengths[0]));
  for (int rank = 0; rank < ranks; ++rank) {
    auto const other = remaining.substr(0, static_cast<std::size_t>(lengths[rank]));
    remaining.remove_prefix(other.size());
    if (other != first) detail::throw_difference(call, first, other, rank);
  }
}

} // namespace constrain
