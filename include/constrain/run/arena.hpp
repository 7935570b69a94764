#pragma once

#include "constrain/program/error.hpp"
#include "constrain/program/units.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace constrain {

/// The one piece of memory a trainer lives in: aligned to 2 MiB so that huge pages serve it, zeroed by the system,
/// never resized. Throws `error` where the system has not that much.
class arena {
public:
  explicit arena(bytes size) : size_(size) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    auto const rounded = (static_cast<std::size_t>(size.count()) + huge_page - 1) / huge_page * huge_page;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, rounded == 0 ? huge_page : rounded)));
    if (!memory_)
      throw error("the arena of " + std::to_string(size.count()) +
                  " bytes could not be allocated; take a smaller micro_batch, or checkpoint::every<1>");
#if defined(__linux__)
    madvise(memory_.get(), rounded, MADV_HUGEPAGE);
#endif
  }

  /// Fills the arena with a pattern, so that `used()` can tell what has been written since.
  void fill_pattern() { std::memset(memory_.get(), pattern, static_cast<std::size_t>(size_.count())); }

  /// Bytes up to the last one that no longer holds the pattern.
  bytes used() const {
    auto end = size_.count();
    while (end > 0 && memory_.get()[end - 1] == std::byte{pattern}) --end;
    return bytes(end);
  }

  std::byte* data() const { return memory_.get(); }
  bytes size() const { return size_; }

private:
  static constexpr unsigned char pattern = 0xA5;

  struct release {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, release> memory_;
  bytes size_;
};

} // namespace constrain
