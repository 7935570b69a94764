#pragma once

#include "constrain/comm/watchdog.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE watchdog& watchdog::instance() {
  static auto* const watcher = new watchdog;
  return *watcher;
}

CONSTRAIN_INLINE watchdog::wait::wait(char const* name, double deadline)
    : outer_(instance().wait_name_.load(std::memory_order_relaxed)),
      outer_begin_(instance().begin_.load(std::memory_order_relaxed)),
      outer_end_(instance().end_.load(std::memory_order_relaxed)) {
  auto& w = instance();
  double const begin = w.running_time(), end = begin + deadline;
  if (outer_ != nullptr && outer_end_ <= end) return; // the outer wait's deadline comes first
  w.begin_.store(begin, std::memory_order_relaxed);
  w.end_.store(end, std::memory_order_relaxed);
  w.wait_name_.store(name, std::memory_order_release);
}

CONSTRAIN_INLINE watchdog::wait::~wait() {
  auto& w = instance();
  if (outer_ != nullptr) {
    w.begin_.store(outer_begin_, std::memory_order_relaxed);
    w.end_.store(outer_end_, std::memory_order_relaxed);
  }
  w.wait_name_.store(outer_, std::memory_order_release);
}

CONSTRAIN_INLINE void watchdog::start() {
  auto period = period_.load();
  if (period % 2 == 1 || !period_.compare_exchange_strong(period, period + 1)) return;
  // The thread blocks all signals: the training threads must receive them.
  sigset_t all_signals, old_mask;
  ::sigfillset(&all_signals);
  ::pthread_sigmask(SIG_BLOCK, &all_signals, &old_mask);
  pthread_t thread;
  auto const run = [](void* p) -> void* { return instance().watch(reinterpret_cast<std::intptr_t>(p)), nullptr; };
  if (::pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(period + 1)) == 0) ::pthread_detach(thread);
  else stop();
  ::pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
}

CONSTRAIN_INLINE void watchdog::stop() {
  if (auto period = period_.load(); period % 2 == 1) period_.compare_exchange_strong(period, period + 1);
}

CONSTRAIN_INLINE double watchdog::now() {
  std::timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

CONSTRAIN_INLINE void watchdog::watch(std::intptr_t period) {
  double last = now();
  while (period_ == period) {
    double const deadline = end_.load(std::memory_order_relaxed) - begin_.load(std::memory_order_relaxed);
    double const tick = std::clamp(deadline / 20, 0.005, 0.25);
    std::timespec const pause{0, static_cast<long>(tick * 1e9)};
    ::nanosleep(&pause, nullptr);
    // If a pause took more than two ticks, this process was probably stopped (SIGSTOP): two ticks of the pause count.
    double const time = now(), stopped = std::max(time - last - 2 * tick, 0.0);
    last = time;
    stopped_.store(stopped_.load(std::memory_order_relaxed) + stopped, std::memory_order_relaxed);
    auto const* const wait_name = wait_name_.load(std::memory_order_acquire);
    double const begin = begin_.load(std::memory_order_relaxed), running = running_time();
    if (wait_name != nullptr && running >= end_.load(std::memory_order_relaxed))
      end_process(wait_name, running - begin);
  }
}

CONSTRAIN_INLINE void watchdog::end_process(char const* wait_name, double waited) const {
  char line[512], rank_text[32] = "a rank";
  if (int const rank = rank_; rank >= 0) std::snprintf(rank_text, sizeof rank_text, "rank %d", rank);
  int const length = std::snprintf(
      line, sizeof line,
      "%s has waited %.1f s for the other ranks (%s: %s) and ends: one of them has ended, is stopped, is too slow or "
      "has called another function; check their last output, and if they are only slow, set a longer "
      "run_options::deadline\n",
      rank_text, waited, call_.load(std::memory_order_relaxed), wait_name);
  auto const size = static_cast<std::size_t>(std::min<int>(length, sizeof line - 1));
  [[maybe_unused]] auto const bytes_written = ::write(2, line, size);
  ::_exit(1); // skip exit handlers: they would wait for the other ranks again
}

} // namespace constrain
