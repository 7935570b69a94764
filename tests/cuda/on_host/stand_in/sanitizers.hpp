#pragma once

// Tells the sanitizers which fiber runs (ThreadSanitizer and AddressSanitizer), what orders what (ThreadSanitizer), and
// which device memory a call may touch (AddressSanitizer). Without a sanitizer, all of these functions do nothing.

#include <cstddef>

#if defined(ON_HOST_COUNTS_ACCESSES)
// The compiler's calls go to accesses.hpp instead.
#elif defined(__SANITIZE_THREAD__)
#define ON_HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ON_HOST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ON_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ON_HOST_ASAN 1
#endif
#endif

#if defined(ON_HOST_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
void __tsan_java_init(unsigned long begin, unsigned long bytes);
void __tsan_java_free(unsigned long begin, unsigned long bytes);
void __tsan_java_alloc(unsigned long begin, unsigned long bytes);
}
/// For the stand-in's own code on the stack of a CUDA thread: its accesses are not the thread's.
#define ON_HOST_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
#define ON_HOST_UNSEEN
#endif
#if defined(ON_HOST_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace on_host {

#if defined(ON_HOST_TSAN)
inline constexpr bool with_tsan = true;
inline void acquire(void const* clock) { __tsan_acquire(const_cast<void*>(clock)); }
inline void release(void const* clock) { __tsan_release(const_cast<void*>(clock)); }

/// While this object exists, the thread does the stand-in's bookkeeping, which ThreadSanitizer must not see. It sees
/// the CUDA threads that this thread switches to.
class bookkeeping {
public:
  bookkeeping() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~bookkeeping() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  bookkeeping(bookkeeping const&) = delete;
  bookkeeping& operator=(bookkeeping const&) = delete;
};

/// Forgets earlier accesses to memory that begins a new life: a block's shared memory.
inline void begins_anew(void const* memory, std::size_t bytes) {
  auto const begin = reinterpret_cast<unsigned long>(memory);
  [[maybe_unused]] static bool const ready = (__tsan_java_init(8, 0x7ffffffffff0), true);
  auto const size = (begin % 8 + bytes + 7) / 8 * 8;
  __tsan_java_free(begin / 8 * 8, size);
  __tsan_java_alloc(begin / 8 * 8, size);
}
#else
inline constexpr bool with_tsan = false;
inline void acquire(void const*) {}
inline void release(void const*) {}
struct bookkeeping {
  bookkeeping() {}
  ~bookkeeping() {}
};
inline void begins_anew(void const*, std::size_t) {}
#endif

} // namespace on_host

#if defined(ON_HOST_TSAN)
// Not inline, since the run time has a weak one: a program with ThreadSanitizer includes this in one source file.
extern "C" char const* __tsan_default_options() { return "halt_on_error=1:atexit_sleep_ms=0:report_signal_unsafe=0"; }
#endif
