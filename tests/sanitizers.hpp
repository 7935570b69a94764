#pragma once

namespace constrain::test {

#if defined(__has_feature)
#define CONSTRAIN_HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONSTRAIN_HAS_SANITIZER 1
#else
#define CONSTRAIN_HAS_SANITIZER 0
#endif

/// Whether a sanitizer has its own memory beside the program's, and its own malloc.
inline constexpr bool under_sanitizer = CONSTRAIN_HAS_SANITIZER;

} // namespace constrain::test
