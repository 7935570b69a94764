#pragma once

#include "constrain/fit/interruption.hpp"

#include "constrain/device/cpu/signal_stack.hpp"

#include <cerrno>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::install(handler library_handler) {
  read_current();
  installed_ = current_.sa_handler != SIG_IGN; // Linux ignores the signal with and without SA_SIGINFO
  if (!installed_) return;
  // If the program itself reinstalled `library_handler`, `previous_` already holds the program's handler.
  if (current_.sa_sigaction != library_handler) previous_ = current_;
  struct sigaction action {};
  action.sa_sigaction = library_handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  action.sa_mask = previous_.sa_mask;
  ::sigaction(number_, &action, nullptr);
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::restore(handler library_handler) {
  read_current();
  if (installed_ && current_.sa_sigaction == library_handler) ::sigaction(number_, &previous_, nullptr);
  installed_ = false;
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::call_handler(siginfo_t* info, void* context) const {
  if (previous_.sa_handler == SIG_IGN) return;
  struct sigaction current {};
  ::sigaction(number_, nullptr, &current);
  if (current.sa_sigaction == previous_.sa_sigaction) return; // the program's handler has called the library's
  if ((previous_.sa_flags & SA_SIGINFO) != 0) previous_.sa_sigaction(number_, info, context);
  else previous_.sa_handler(number_);
}

[[gnu::cold]] CONSTRAIN_INLINE void signal_disposition::end_process() const {
  ::sigaction(number_, &previous_, nullptr);
  ::raise(number_); // delivered when the handler returns
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE interruption::interruption() {
  give_signal_stacks();
  detail::lock_guard const lock(mutex_);
  noted_before_ = noted_;
  noted_before_newest_ = noted_before_;
  handled_ = 0; // a handler may have left `handle` with siglongjmp
  if (instances_++ > 0) return;
  interrupt_.install(&handle), terminate_.install(&handle);
}

[[gnu::cold]] CONSTRAIN_INLINE interruption::~interruption() {
  detail::lock_guard const lock(mutex_);
  if (--instances_ > 0) return;
  interrupt_.restore(&handle), terminate_.restore(&handle);
}

[[gnu::cold]] CONSTRAIN_INLINE void interruption::handle(int number, siginfo_t* info, void* context) {
  // The program's handler may call this handler: if the program installed its handler while an earlier object existed,
  // this handler was the previous one.
  int const outer = handled_;
  if (outer == number) return;
  handled_ = number;
  int const error_number = errno;
  auto const& signal = number == SIGINT ? interrupt_ : terminate_;
  // The program may call or reinstall this handler after the last interruption object was destroyed.
  bool const first = instances_ > 0 && noted_ == noted_before_newest_;
  if (first) ++noted_;
  if (signal.has_handler()) signal.call_handler(info, context);
  else if (!first) signal.end_process();
  errno = error_number;
  handled_ = outer;
}

} // namespace constrain
