#pragma once

#include "constrain/device/cpu/parallel.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <memory>
#include <new>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An alternate stack of a thread, for signal handlers installed with SA_ONSTACK. It is necessary because GEMMs of
/// oneDNN 2.6 write data far below the stack pointer, where a handler on the thread's own stack would overwrite the
/// data.
class signal_stack {
public:
  /// Gives the calling thread an alternate stack unless the thread already has one, the system refuses it, or there is
  /// no memory for it. The same thread must destroy this object; the destructor removes the stack.
  signal_stack() {
    stack_t current{};
    if (::sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
    auto const size = minimum_size();
    memory_.reset(new (std::nothrow) std::byte[size]);
    if (memory_ == nullptr) return;
    stack_t alternate{};
    alternate.ss_sp = memory_.get();
    alternate.ss_size = size;
    if (::sigaltstack(&alternate, nullptr) != 0) memory_.reset();
  }
  signal_stack(signal_stack const&) = delete;
  signal_stack& operator=(signal_stack const&) = delete;
  ~signal_stack() {
    stack_t current{};
    if (memory_ == nullptr || ::sigaltstack(nullptr, &current) != 0 || current.ss_sp != memory_.get()) return;
    stack_t disabled{};
    disabled.ss_flags = SS_DISABLE;
    ::sigaltstack(&disabled, nullptr);
  }

private:
  /// Bytes that are enough for a user's handler and for the registers that the Linux kernel saves on this stack (11 KiB
  /// with AMX).
  static std::size_t minimum_size() {
    std::size_t size = std::size_t{1} << 16;
#if defined(_SC_SIGSTKSZ)
    size = std::max(size, static_cast<std::size_t>(std::max(::sysconf(_SC_SIGSTKSZ), 0L)));
#endif
    return size;
  }

  std::unique_ptr<std::byte[]> memory_;
};

/// Gives a `signal_stack` to the calling thread and every thread of its parallel loops, for each thread's lifetime.
/// Every run of an entry program (step, evaluate, ...) on the CPU must call this function, because a signal handler
/// that `fit` installs may run in any of these threads.
inline void give_signal_stacks() {
  // Later parallel regions reuse the threads of this region. This region runs every time, because g++'s OpenMP library
  // ends the surplus threads when a region has fewer threads, and later creates new ones.
  parallel_for(thread_count(), [](std::int64_t) {
    thread_local signal_stack const stack;
    static_cast<void>(stack);
  });
}

} // namespace constrain
