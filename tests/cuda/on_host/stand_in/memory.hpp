#pragma once

#include "sanitizers.hpp"
#include "violation.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace on_host {

/// A range of device memory, or of the host's pinned memory.
struct allocation {
  std::size_t bytes = 0;
  int device = 0;
  bool freed = false;
  char* pages = nullptr; // with a page that nobody may touch on either side
  std::size_t all_bytes = 0;
};

/// The memory of all devices. The host may not touch it: its pages are open only while the device works. Addresses are
/// never used twice, so that memory is known after it was freed. An allocation ends where its last page ends, up to
/// the 256 bytes that CUDA rounds to.
class device_memory {
public:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t huge_page = 2 << 20;
  static inline std::size_t filled = 256 << 20; // larger allocations are not filled with NaN, which takes time

  /// While it lives, the device works.
  struct opened {
    opened() { protect(PROT_READ | PROT_WRITE), is_open() = true; }
    ~opened() { protect(PROT_NONE), is_open() = false; }
    opened(opened const&) = delete;
    opened& operator=(opened const&) = delete;
  };

  /// Memory at a multiple of 256, full of NaN; null if the host has no address space left.
  static void* make(std::size_t bytes, int device, bool fill) {
    bookkeeping const unseen;
    listen();
    auto const rounded = (bytes + 255) / 256 * 256;
    auto const data_pages = (rounded + page - 1) / page * page;
    allocation a{bytes, device};
    a.all_bytes = data_pages + 2 * page;
    auto* const pages = ::mmap(nullptr, a.all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    a.pages = static_cast<char*>(pages);
    if (data_pages >= huge_page) ::madvise(a.pages + page, data_pages, MADV_HUGEPAGE); // quicker to open and to close
    auto* const data = a.pages + page + data_pages - rounded;
    if (fill && bytes <= filled) {
      ::mprotect(a.pages + page, data_pages, PROT_READ | PROT_WRITE);
      std::memset(data, 0xFF, rounded);
      ::mprotect(a.pages + page, data_pages, PROT_NONE);
    }
    all()[data] = a;
    living().push_back(data);
    return data;
  }
  /// Frees memory. Its address is never given again.
  static void free(void* memory) {
    bookkeeping const unseen;
    auto const found = all().find(static_cast<char*>(memory));
    if (found == all().end())
      violated("cudaFree", "this address is not one that cudaMalloc gave", "memory is freed by its first address");
    auto& a = found->second;
    if (a.freed) violated("cudaFree", "this memory was freed before", "memory is freed once");
    a.freed = true;
    std::erase(living(), found->first);
    ::mmap(a.pages, a.all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }

  /// The allocation at or before an address, if the address is in it or at its end.
  static allocation const* find(void const* address, char const** begin = nullptr) {
    auto const* const at = static_cast<char const*>(address);
    auto next = all().upper_bound(const_cast<char*>(at));
    if (next == all().begin()) return nullptr;
    --next;
    if (begin != nullptr) *begin = next->first;
    return at <= next->first + next->second.bytes ? &next->second : nullptr;
  }
  /// `call` may be given only bytes of one living allocation on `device`.
  static void check(char const* call, char const* what, void const* address, std::size_t bytes, int device) {
    char const* begin = nullptr;
    auto const* const a = find(address, &begin);
    if (a == nullptr || (bytes > 0 && static_cast<char const*>(address) == begin + a->bytes))
      violated(call, text(what, " is not device memory"), "it must be an address in memory that cudaMalloc gave");
    if (a->freed) violated(call, text(what, " was freed"), "memory is used between cudaMalloc and cudaFree");
    if (a->device != device)
      violated(call, text(what, " is memory of device ", a->device, ", not of ", device),
               "a device reaches only its own memory");
    auto const offset = static_cast<std::size_t>(static_cast<char const*>(address) - begin);
    if (offset + bytes > a->bytes)
      violated(call, text(what, " has ", bytes, " bytes from byte ", offset, " of an allocation of ", a->bytes),
               "it must lie in one allocation");
  }
  static std::size_t used(int device) {
    std::size_t bytes = 0;
    for (auto* const data : living())
      if (all()[data].device == device) bytes += all()[data].bytes;
    return bytes;
  }
  /// The number of allocations that live.
  static int count() { return static_cast<int>(living().size()); }
  static std::map<char*, allocation>& all() {
    static auto* const each = new std::map<char*, allocation>;
    return *each;
  }

private:
  static bool& is_open() {
    static bool open = false;
    return open;
  }
  static void protect(int access) {
    for (auto* const data : living()) {
      auto const& a = all()[data];
      ::mprotect(a.pages + page, a.all_bytes - 2 * page, access);
    }
  }
  static std::vector<char*>& living() {
    static auto* const each = new std::vector<char*>;
    return *each;
  }

  // The test's framework sets its own handler for each test case, so this one is set with every allocation.
  static void listen() {
    struct sigaction action {};
    action.sa_sigaction = &device_memory::fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, nullptr);
    ::sigaction(SIGBUS, &action, nullptr);
  }
  static void fault(int signal, siginfo_t* info, void*) {
    auto* const at = static_cast<char*>(info->si_addr);
    for (auto const& [begin, a] : all()) {
      if (at < a.pages || at >= a.pages + a.all_bytes) continue;
      if (a.freed) violated(who(), "touches device memory that was freed", "memory lives until cudaFree");
      if (at < begin || at >= begin + a.bytes)
        violated(who(), text("touches byte ", at - begin, " of an allocation of ", a.bytes), "it must stay inside");
      violated(who(), text("touches byte ", at - begin, " of device memory"), "only kernels and copies may");
    }
    ::signal(signal, SIG_DFL); // not the stand-in's: the instruction runs again
  }
  static char const* who() { return is_open() ? "a kernel or copy" : "the host"; }
};

/// Pinned memory of the host: copies read and write it while the host continues.
inline std::map<char const*, std::size_t>& pinned_memory() {
  static auto* const all = new std::map<char const*, std::size_t>;
  return *all;
}
inline bool is_pinned(void const* memory, std::size_t bytes) {
  auto const* const at = static_cast<char const*>(memory);
  auto next = pinned_memory().upper_bound(at);
  if (next == pinned_memory().begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

} // namespace on_host
