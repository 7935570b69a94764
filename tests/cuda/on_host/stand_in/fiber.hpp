#pragma once

#include "sanitizers.hpp"

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace on_host {

/// A CUDA thread: a stack of its own, which runs `body` again and again, to the end or to a pause. Without a sanitizer
/// it begins by way of its own context and changes by jumps, which need no call of the system.
class fiber {
public:
  explicit fiber(void (*body)()) : body_(body) {}
  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;

  static inline fiber* running = nullptr;
  bool finished = false;

  /// From the scheduler: runs the fiber until it pauses or finishes.
  ON_HOST_UNSEEN void resume() {
    running = this;
    finished = false;
#if defined(ON_HOST_TSAN)
    scheduler_self_ = __tsan_get_current_fiber();
    begin();
    __tsan_switch_to_fiber(self_, __tsan_switch_to_fiber_no_sync);
    swapcontext(&scheduler_, &context_);
#elif defined(ON_HOST_ASAN)
    void* fake = nullptr;
    begin();
    __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
    swapcontext(&scheduler_, &context_);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    if (_setjmp(scheduler_) != 0) return;
    if (started_) _longjmp(place_, 1);
    begin();
    setcontext(&context_);
#endif
  }
  /// From the fiber: back to the scheduler.
  ON_HOST_UNSEEN void pause() {
#if defined(ON_HOST_TSAN)
    __tsan_switch_to_fiber(scheduler_self_, __tsan_switch_to_fiber_no_sync);
    swapcontext(&context_, &scheduler_);
#elif defined(ON_HOST_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, scheduler_stack_, scheduler_bytes_);
    swapcontext(&context_, &scheduler_);
    __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_bytes_);
#else
    if (_setjmp(place_) == 0) _longjmp(scheduler_, 1);
#endif
  }

private:
#if defined(ON_HOST_ASAN) || defined(ON_HOST_TSAN)
  static constexpr std::size_t stack_bytes = 256 << 10;
#else
  static constexpr std::size_t stack_bytes = 128 << 10;
#endif

  void begin() {
    if (started_) return;
    started_ = true;
    stack_.reset(new char[stack_bytes]); // pages that no thread touches cost nothing
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, &fiber::live, 0);
  }
  ON_HOST_UNSEEN static void live() {
#if defined(ON_HOST_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_bytes_);
#endif
    for (auto* const self = running;;) {
      self->body_();
      self->finished = true;
      self->pause();
    }
  }

  void (*body_)();
  std::unique_ptr<char[]> stack_;
  ucontext_t context_{};
  bool started_ = false;
#if defined(ON_HOST_TSAN)
  void* self_ = __tsan_create_fiber(0);
  static inline void* scheduler_self_ = nullptr;
  static inline ucontext_t scheduler_;
#elif defined(ON_HOST_ASAN)
  static inline ucontext_t scheduler_;
  static inline void const* scheduler_stack_ = nullptr;
  static inline std::size_t scheduler_bytes_ = 0;
#else
  std::jmp_buf place_;
  static inline std::jmp_buf scheduler_;
#endif
};

} // namespace on_host
