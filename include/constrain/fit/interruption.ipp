#pragma once

#include "constrain/fit/interruption.hpp"

#include "constrain/device/cpu/signal_stack.hpp"

#include <cerrno>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::install(handler ours) {
  look();
  installed_ = (now_.sa_flags & SA_SIGINFO) != 0 || now_.sa_handler != SIG_IGN;
  if (!installed_) return;
  // If the program itself reinstalled `ours`, `before_` already holds the program's handler.
  if (now_.sa_sigaction != ours) before_ = now_;
  struct sigaction action {};
  action.sa_sigaction = ours;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  action.sa_mask = before_.sa_mask;
  ::sigaction(number_, &action, nullptr);
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::restore(handler ours) {
  look();
  if (installed_ && now_.sa_sigaction == ours) ::sigaction(number_, &before_, nullptr);
  installed_ = false;
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::call_handler(siginfo_t* info, void* context) const {
  if ((before_.sa_flags & SA_SIGINFO) != 0) before_.sa_sigaction(number_, info, context);
  else if (before_.sa_handler != SIG_IGN) before_.sa_handler(number_);
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::end_process() const {
  ::sigaction(number_, &before_, nullptr);
  ::raise(number_); // delivered when the handler returns
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE interruption::interruption() {
  give_signal_stacks();
  detail::lock_guard const lock(changes_);
  noted_before_ = noted_;
  noted_before_newest_ = noted_before_;
  if (living_++ > 0) return;
  interrupt_.install(&handle), terminate_.install(&handle);
}

[[gnu::cold]] CONSTRAIN_INLINE interruption::~interruption() {
  detail::lock_guard const lock(changes_);
  if (--living_ > 0) return;
  interrupt_.restore(&handle), terminate_.restore(&handle);
}

[[gnu::cold]] CONSTRAIN_INLINE void interruption::handle(int number, siginfo_t* info, void* context) {
  int const error_number = errno;
  auto const& signal = number == SIGINT ? interrupt_ : terminate_;
  // The program may call or reinstall this handler after the last interruption object was destroyed.
  bool const first = living_ > 0 && noted_ == noted_before_newest_;
  if (first) ++noted_;
  if (signal.has_handler()) signal.call_handler(info, context);
  else if (!first) signal.end_process();
  errno = error_number;
}

} // namespace constrain
