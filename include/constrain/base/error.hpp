#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/printable.hpp"

#if !defined(__cpp_exceptions)
#error "ConsTrain reports failures as exceptions of type constrain::error; compile without -fno-exceptions"
#endif

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The exception that the library throws for run-time failures. `what()` is one sentence: what went wrong, where, and
/// what to do instead. Because the sentence may quote names from files, the constructors replace control characters
/// with '?' (see `printable`).
struct error : std::runtime_error {
  /// An error with the message `sentence`.
  explicit error(std::string sentence) : std::runtime_error(printable(std::move(sentence))) {}
  /// An error whose message is the concatenation of `parts`:
  /// `throw error({"step: token ", token, " is too large; give tokens below ", vocabulary})`.
  [[gnu::noinline, gnu::cold]] explicit error(std::initializer_list<text_part> parts) : error(concat(parts)) {}
};

} // namespace constrain
