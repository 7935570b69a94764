#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/comm/agreement.hpp"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A list of named values. `check_ranks_agree` checks that all ranks have added equal names and values in the same
/// order. Errors show the names.
class fingerprint {
public:
  /// Adds a string. In `text`, '?' replaces each '\0' of `name` and `value`, because a '\0' ends each of them.
  void add(std::string_view name, std::string_view value) { add_field(name), add_field(value); }
  /// Adds a bool or a number. A floating-point number is written with the fewest digits that round-trip.
  template <class number>
    requires std::is_arithmetic_v<number>
  void add(std::string_view name, number value) {
    char digits[32];
    if constexpr (std::is_same_v<number, bool>) add(name, std::string_view(value ? "true" : "false"));
    else if constexpr (std::is_integral_v<number>) add(name, concat({value}));
    else {
      auto const size = std::to_chars(digits, digits + sizeof digits, value).ptr - digits;
      add(name, std::string_view(static_cast<char const*>(digits), static_cast<std::size_t>(size)));
    }
  }
  /// Adds, in hexadecimal, the hash of a value that is too long to send.
  void add_hash(std::string_view name, std::uint64_t hash);

  /// All names and values, each followed by '\0'.
  std::string const& text() const { return text_; }

private:
  /// Adds a name or a value, and the '\0' that ends it.
  void add_field(std::string_view field);

  std::string text_;
};

/// Throws the same `error` on every rank unless all ranks have the same fingerprint and are in the same call (`call`).
/// If fingerprints differ, the error names the first value that differs between rank 0 and another rank, shows both
/// values, and says how to make the ranks agree. `local`: this rank's fingerprint. Does nothing with a single rank.
/// Collective: one all-gather, or two if fingerprints differ.
void check_ranks_agree(communicator& world, joint_call call, fingerprint const& local);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/fingerprint.ipp"
#endif
