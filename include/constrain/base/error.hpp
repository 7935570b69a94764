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

/// The exception of every run-time failure in the library. `what()` is one sentence: what went wrong, where, and what
/// to do instead. It may quote names from files, so control characters, which could end the line or command a terminal,
/// become '?'.
struct error : std::runtime_error {
  /// The sentence.
  explicit error(std::string sentence) : std::runtime_error(printable(std::move(sentence))) {}
  /// The sentence in parts: `throw error({"step: token ", token, " is too large"})`.
  [[gnu::noinline, gnu::cold]] explicit error(std::initializer_list<text_part> parts) : error(concat(parts)) {}
};

} // namespace constrain
