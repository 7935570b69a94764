#pragma once

#include "constrain/base/mutex.hpp"
#include "constrain/base/variant.hpp"

#include <atomic>
#include <csignal>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Installs the library's handler (`library_handler`) for one signal, and later restores the program's handler. Not
/// thread-safe: the caller holds a lock.
class signal_disposition {
public:
  using handler = void (*)(int, siginfo_t*, void*);

  /// `number`: the signal's number, such as SIGINT.
  constexpr explicit signal_disposition(int number) : number_(number) {}

  /// Installs the library's handler, unless the program ignores the signal.
  void install(handler library_handler);
  /// Restores the program's handler, unless the program has installed another handler since.
  void restore(handler library_handler);

  // The library's handler calls the next three functions.

  /// Whether `install` replaced a handler of the program; false: the signal had its default action.
  bool has_handler() const { return previous_.sa_handler != SIG_DFL; } // on Linux, valid with SA_SIGINFO too
  /// Calls the program's handler with the arguments of the library's handler. Does nothing if the program's handler is
  /// installed now, because it has then called the library's handler.
  void call_handler(siginfo_t* info, void* context) const;
  /// Restores the default action and raises the signal: the process ends when the library's handler returns.
  void end_process() const;

private:
  // Reads the current handler into `current_`, which is a member because g++ 12 warns that a local variable would
  // dangle.
  void read_current() { ::sigaction(number_, nullptr, &current_); }

  int number_;
  bool installed_ = false;
  struct sigaction previous_ {
  }, current_{};
};

} // namespace detail

/// While an object of this class exists, the first SIGINT or SIGTERM only sets a flag; the second signal ends the
/// process as usual. Several objects may exist, in any threads. The first signal after the newest object was created
/// sets the flags of all of them. If the program has already installed a handler for one of the two signals, each such
/// signal also calls that handler, and the second one does not end the process. A handler installed later stays in
/// place, and an ignored signal stays ignored.
class interruption {
public:
  /// Starts to watch SIGINT and SIGTERM. The destructor of the last object restores the program's handlers.
  interruption();
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;
  ~interruption();

  /// Whether a SIGINT or SIGTERM has arrived since construction.
  bool noted() const { return noted_ != noted_before_; }

private:
  /// The library's handler for both signals.
  static void handle(int number, siginfo_t* info, void* context);

  static inline detail::mutex mutex_;
  static inline std::atomic<int> instances_{0};           // objects of this class that exist
  static inline std::atomic<int> noted_{0};               // signals that have set the flag since the program's start
  static inline std::atomic<int> noted_before_newest_{0}; // noted_ when the newest object was created
  static inline detail::signal_disposition interrupt_{SIGINT}, terminate_{SIGTERM};
  // The signal that `handle` handles in this thread; 0: none.
  static inline constinit thread_local std::sig_atomic_t volatile handled_ = 0;

  int noted_before_ = 0; // noted_ when this object was created
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/interruption.ipp"
#endif
