#pragma once

#include "constrain/base/variant.hpp"

#include <atomic>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A thread that ends this process with an error when the process has waited for other processes longer than a
/// deadline. The thread makes no MPI calls: an MPI call may never return if another process has ended or is stopped.
/// Each stop of this process itself (SIGSTOP) counts as half a second at most.
class watchdog {
public:
  /// The process's only instance. It is never destroyed, because the thread may run until the process ends.
  static watchdog& instance();

  /// A wait for other processes, from the construction to the destruction of this object.
  class wait {
  public:
    /// `name`: the wait's name in the error, a string literal. `deadline`: seconds until the watchdog ends the process.
    /// Waits may be nested. Only one thread may wait at a time. Each wait keeps its own deadline: an inner wait does
    /// not change the outer wait's.
    wait(char const* name, double deadline);
    wait(wait const&) = delete;
    wait& operator=(wait const&) = delete;
    ~wait();

  private:
    char const* outer_;              // name of the outer wait whose deadline comes first; null: no outer wait
    double outer_begin_, outer_end_; // `begin_` and `end_` of the outer wait
  };

  /// Starts the thread unless it is already running. Before this call, after `stop`, or if no thread can be created,
  /// waits have no deadline.
  void start();
  /// Makes the thread end within about a quarter of a second. A run of a single process needs no watchdog.
  void stop();

  /// Sets this process's rank, for the error.
  void rank(int r) { rank_ = r; }
  /// Sets the name of the current library call, a string literal, for the error.
  void call(char const* name) { call_.store(name, std::memory_order_relaxed); }

private:
  watchdog() = default;

  /// Seconds on the monotonic clock.
  static double now();

  /// Seconds on the monotonic clock, without the time during which this process was stopped.
  double running_time() const { return now() - stopped_.load(std::memory_order_relaxed); }

  /// The thread's function: ends the process after the deadline of a wait. Returns after `stop`. `period`: the value of
  /// `period_` for which the thread was started.
  void watch(std::intptr_t period);

  /// Prints that the wait `wait_name` has lasted `waited` seconds, and ends the process with status 1.
  [[noreturn, gnu::cold]] void end_process(char const* wait_name, double waited) const;

  // The wait whose deadline comes first. A waiting thread stores `wait_name_` last. To check the deadline, `watch`
  // loads `wait_name_` before `begin_` and `end_`. So the two times were stored with the loaded `wait_name_`, or later.
  std::atomic<char const*> wait_name_{nullptr}; // name of the wait; null: not waiting
  std::atomic<double> begin_{0};                // start of the wait, by `running_time`
  std::atomic<double> end_{1800};               // `begin_` plus the deadline of the wait
  std::atomic<double> stopped_{0};              // seconds during which this process was stopped
  std::atomic<char const*> call_{"the start"};
  std::atomic<int> rank_{-1}; // -1: not known before MPI is initialized
  // `start` adds 1 to an even number and `stop` to an odd one, so an odd number means that the thread is running. After
  // a `stop`, the thread ends even if a `start` follows immediately.
  std::atomic<std::intptr_t> period_{0};
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/watchdog.ipp"
#endif
