#pragma once

#include "constrain/base/error.hpp"
#include "constrain/run/arena.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace constrain::inline CONSTRAIN_VARIANT {

/// An arena in host memory, aligned to 2 MiB for transparent huge pages. The constructor throws `error` if the memory
/// cannot be allocated.
class host_arena final : public arena {
public:
  /// Reserves address space; the operating system allocates each page on first access.
  explicit host_arena(bytes size) : arena(size) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    auto const rounded = (static_cast<std::size_t>(size.count()) + huge_page - 1) / huge_page * huge_page;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, rounded == 0 ? huge_page : rounded)));
    if (!memory_)
      throw error({"the arena of ", size.count(),
                   " bytes could not be allocated in host memory; use a smaller micro_batch or, in a trainer, "
                   "checkpoint::every<1>"});
#if defined(__linux__)
    madvise(memory_.get(), rounded, MADV_HUGEPAGE);
#endif
  }

  std::byte* data() const override { return memory_.get(); }
  std::byte* host() const override { return memory_.get(); }

private:
  void copy_out(std::int64_t offset, void* to, std::int64_t count) const override {
    std::memcpy(to, memory_.get() + offset, static_cast<std::size_t>(count));
  }
  void copy_in(std::int64_t offset, void const* from, std::int64_t count) override {
    std::memcpy(memory_.get() + offset, from, static_cast<std::size_t>(count));
  }
  void set(std::int64_t offset, std::int64_t count, unsigned char value) override {
    std::memset(memory_.get() + offset, value, static_cast<std::size_t>(count));
  }

  struct release {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, release> memory_;
};

} // namespace constrain
