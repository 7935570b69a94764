#pragma once

#include "constrain/device/cpu/signal_stack.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Replaces the program's handler of one signal by the library's, and restores it.
class signal_disposition {
public:
  using handler = void (*)(int, siginfo_t*, void*);

  constexpr explicit signal_disposition(int number) : number_(number) {}

  /// Installs the library's handler, unless the program ignores the signal.
  void install(handler ours) {
    look();
    installed_ = (now_.sa_flags & SA_SIGINFO) != 0 || now_.sa_handler != SIG_IGN;
    if (!installed_) return;
    // If the program itself has restored our handler, `before_` already holds its own.
    if (now_.sa_sigaction != ours) before_ = now_;
    struct sigaction action {};
    action.sa_sigaction = ours;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    action.sa_mask = before_.sa_mask;
    ::sigaction(number_, &action, nullptr);
  }
  /// Restores the program's handler, unless the program has installed another one since.
  void restore(handler ours) {
    look();
    if (installed_ && now_.sa_sigaction == ours) ::sigaction(number_, &before_, nullptr);
    installed_ = false;
  }

  // Called from the signal handler.
  bool has_handler() const { return (before_.sa_flags & SA_SIGINFO) != 0 || before_.sa_handler != SIG_DFL; }
  void call_handler(siginfo_t* info, void* context) const {
    if ((before_.sa_flags & SA_SIGINFO) != 0) before_.sa_sigaction(number_, info, context);
    else if (before_.sa_handler != SIG_IGN) before_.sa_handler(number_);
  }
  void end_process() const {
    ::sigaction(number_, &before_, nullptr);
    ::raise(number_); // delivered when the handler returns
  }

private:
  // Reads into a member: g++ 12 warns of a dangling pointer for a local variable.
  void look() { ::sigaction(number_, nullptr, &now_); }

  int number_;
  bool installed_ = false;
  struct sigaction before_ {
  }, now_{};
};

} // namespace detail

/// While an object of this class exists, the first SIGINT or SIGTERM only sets a flag; the second one ends the process
/// as usual. Several objects may exist in any threads: a signal sets the flag of all of them. A handler that the
/// program installed before is called too, one that it installs later is kept, and an ignored signal stays ignored.
class interruption {
public:
  interruption() {
    give_signal_stacks();
    std::lock_guard const lock(changes_);
    noted_before_ = noted_;
    noted_before_newest_ = noted_before_;
    if (living_++ > 0) return;
    interrupt_.install(&handle), terminate_.install(&handle);
  }
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;
  ~interruption() {
    std::lock_guard const lock(changes_);
    if (--living_ > 0) return;
    interrupt_.restore(&handle), terminate_.restore(&handle);
  }

  /// Whether a signal has arrived since construction.
  bool noted() const { return noted_ != noted_before_; }

private:
  static void handle(int number, siginfo_t* info, void* context) {
    int const error_number = errno;
    auto const& signal = number == SIGINT ? interrupt_ : terminate_;
    // The program may call or reinstall this handler after the last interruption object was destroyed.
    bool const first = living_ > 0 && noted_ == noted_before_newest_;
    if (first) ++noted_;
    if (signal.has_handler()) signal.call_handler(info, context);
    else if (!first) signal.end_process();
    errno = error_number;
  }

  static inline std::mutex changes_;
  static inline std::atomic<int> living_{0};
  static inline std::atomic<int> noted_{0}; // signals since the program's start
  static inline std::atomic<int> noted_before_newest_{0};
  static inline detail::signal_disposition interrupt_{SIGINT}, terminate_{SIGTERM};

  int noted_before_ = 0;
};

} // namespace constrain
