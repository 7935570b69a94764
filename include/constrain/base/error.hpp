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

/// What every run-time failure of the library throws. `what()` is one sentence:
/// what went wrong, where, and what to do instead. What it quotes may come from a foreign file: a control character,
/// which could end the line or command a terminal, is shown as '?'.
struct error : std::runtime_error {
  /// `sentence` without a full stop, as all of the library's.
  explicit error(std::string sentence) : std::runtime_error(printable(std::move(sentence))) {}
  /// Of parts: `throw error({"step: token ", token, " is too large"})`.
  [[gnu::noinline, gnu::cold]] explicit error(std::initializer_list<text_part> parts) : error(concat(parts)) {}
};

} // namespace constrain
