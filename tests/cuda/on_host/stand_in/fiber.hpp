#pragma once

#include "sanitizers.hpp"

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace on_host {

// Jumps that keep three registers, where the compiler has them.
#if defined(__clang__) && !defined(__x86_64__)
#define ON_HOST_SET(place) _setjmp(place)
#define ON_HOST_JUMP(place) _longjmp(place, 1)
using stack_place = std::jmp_buf;
#else
#define ON_HOST_SET(place) __builtin_setjmp(place)
#define ON_HOST_JUMP(place) __builtin_longjmp(place, 1)
using stack_place = void* [5];
#endif

#if defined(ON_HOST_TSAN)
/// A fiber as ThreadSanitizer knows it.
class known_fiber {
public:
  known_fiber() = default;
  static known_fiber made() { return known_fiber(__tsan_create_fiber(0)); }
  ON_HOST_UNSEEN static known_fiber running() { return known_fiber(__tsan_get_current_fiber()); }
  /// The next instruction is this fiber's.
  ON_HOST_UNSEEN void runs_next() const { __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync); }

private:
  ON_HOST_UNSEEN explicit known_fiber(void* fiber) : fiber_(fiber) {}
  void* fiber_ = nullptr;
};
#else
struct known_fiber {
  static known_fiber made() { return {}; }
  static known_fiber running() { return {}; }
  void runs_next() const {}
};
#endif

/// A CUDA thread: a stack of its own, which runs `body` again and again, to the end or to a pause. It begins by way of
/// its own context, and changes by jumps, which need no call of the system; AddressSanitizer needs those calls.
class fiber {
public:
  explicit fiber(void (*body)()) : body_(body) {}
  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;

  static inline fiber* running = nullptr;
  bool finished = false;

  /// From the scheduler: runs the fiber until it pauses or finishes.
  [[gnu::noinline]] ON_HOST_UNSEEN void resume() {
    running = this;
    finished = false;
#if defined(ON_HOST_ASAN)
    void* fake = nullptr;
    begin();
    __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
    swapcontext(&scheduler_, &context_);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    if (ON_HOST_SET(scheduler_) != 0) return;
    scheduler_self_ = known_fiber::running();
    if (started_) self_.runs_next(), jump(place_);
    begin();
#endif
  }
  /// From the fiber: back to the scheduler.
  [[gnu::noinline]] ON_HOST_UNSEEN void pause() {
#if defined(ON_HOST_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, scheduler_stack_, scheduler_bytes_);
    swapcontext(&context_, &scheduler_);
    __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_bytes_);
#else
    if (ON_HOST_SET(place_) == 0) scheduler_self_.runs_next(), jump(scheduler_);
#endif
  }

private:
#if defined(ON_HOST_ASAN) || defined(ON_HOST_TSAN)
  static constexpr std::size_t stack_bytes = 256 << 10;
#else
  static constexpr std::size_t stack_bytes = 128 << 10;
#endif

  ON_HOST_UNSEEN void begin() {
    if (started_) return;
    started_ = true;
    stack_.reset(new char[stack_bytes]); // pages that no thread touches cost nothing
#if defined(ON_HOST_ASAN)
    prepare(context_);
#else
    ucontext_t context;
    prepare(context);
    self_.runs_next();
    setcontext(&context);
#endif
  }
  void prepare(ucontext_t& context) {
    static std::size_t made = 0;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_.get();
    // Stacks begin a multiple of pages apart: without the difference, all threads' frames would share few cache lines.
    context.uc_stack.ss_size = stack_bytes - made++ * 832 % 16384;
    context.uc_link = nullptr;
    makecontext(&context, &fiber::live, 0);
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
  bool started_ = false;
#if defined(ON_HOST_ASAN)
  ucontext_t context_{};
  static inline ucontext_t scheduler_;
  static inline void const* scheduler_stack_ = nullptr;
  static inline std::size_t scheduler_bytes_ = 0;
#else
  // A separate function: g++ loses the place if one function sets a place and jumps.
  [[noreturn, gnu::noinline]] ON_HOST_UNSEEN static void jump(stack_place& to) { ON_HOST_JUMP(to); }
  stack_place place_;
  static inline stack_place scheduler_;
  known_fiber self_ = known_fiber::made();
  static inline known_fiber scheduler_self_;
#endif
};

} // namespace on_host
