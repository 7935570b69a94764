#pragma once

#include "constrain/base/variant.hpp"

#include <pthread.h>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Like std::mutex. The library does not include <mutex>, because that header includes <chrono> and would cost compile
/// time in every program.
class mutex {
public:
  constexpr mutex() = default;
  mutex(mutex const&) = delete;
  mutex& operator=(mutex const&) = delete;
  ~mutex() = default;

  void lock() { ::pthread_mutex_lock(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

private:
  ::pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Like std::lock_guard: holds the mutex from construction to destruction.
class lock_guard {
public:
  explicit lock_guard(mutex& m) : mutex_(m) { mutex_.lock(); }
  lock_guard(lock_guard const&) = delete;
  lock_guard& operator=(lock_guard const&) = delete;
  ~lock_guard() { mutex_.unlock(); }

private:
  mutex& mutex_;
};

} // namespace constrain::detail
