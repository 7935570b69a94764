#include "accesses.hpp"

#include "block.hpp"
#include "memory.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <tuple>

// Containers and algorithms are used with types of this file only: of a function that other files have too, the linker
// might keep the one that was compiled with the calls.
namespace {

struct byte_range {
  std::uintptr_t begin, end;
  bool is_shared;
};
struct access {
  std::uintptr_t code, address;
  std::uint32_t thread, number; // the number of the thread's access at this place
  std::uint16_t bytes;
  bool is_shared;

  std::uint32_t warp() const { return thread / 32; }
};
using totals = on_host::access_totals;
struct place {
  on_host::kernel_symbols const* kernel;
  std::uintptr_t code;
  bool is_shared;

  auto operator<=>(place const&) const = default;
};
struct number {
  std::uintptr_t value;
  auto operator<=>(number const&) const = default;
};

bool counts = false; // whether a thread of a kernel may be running
std::vector<byte_range> ranges;
std::vector<access> accesses; // of the block
std::map<place, totals> all;

/// The sectors of 32 bytes that a request to global memory touches, and the fewest that hold as many bytes.
void add_global(totals& to, access const* begin, access const* end) {
  std::vector<number> sectors, bytes;
  for (auto const* a = begin; a != end; ++a)
    for (auto at = a->address; at < a->address + a->bytes; ++at) bytes.push_back({at}), sectors.push_back({at / 32});
  auto const distinct = [](std::vector<number>& x) {
    std::sort(x.begin(), x.end());
    return static_cast<std::int64_t>(std::unique(x.begin(), x.end()) - x.begin());
  };
  to.cost += distinct(sectors);
  to.least += (distinct(bytes) + 31) / 32;
}
/// The transactions of a request to shared memory, which has 32 banks of 4 bytes. All threads of a warp access it at a
/// time; 16 threads if each accesses 8 bytes, and 8 if each accesses 16. Each word of a bank takes a transaction.
void add_shared(totals& to, access const* begin, access const* end) {
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    std::vector<number> words;
    for (auto const* a = begin; a != end; ++a)
      if (a->thread % 32 * std::max<std::uint32_t>(a->bytes, 4) / 128 == turn)
        for (auto word = a->address / 4; word * 4 < a->address + a->bytes; ++word) words.push_back({word});
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::int64_t of_bank[32]{}, most = 0;
    for (auto const word : words) most = std::max(most, ++of_bank[word.value % 32]);
    to.cost += most;
    to.least += words.empty() ? 0 : 1;
  }
}

void start_block(on_host::kernel_symbols const& kernel, void const* dynamic, std::size_t bytes) {
  ranges.clear();
  if (kernel.name.empty()) return; // a copy or a product
  auto const add = [](void const* begin, std::size_t size, bool is_shared) {
    auto const from = reinterpret_cast<std::uintptr_t>(begin);
    ranges.push_back({from, from + size, is_shared});
  };
  for (auto const& v : kernel.shared) add(v.address, v.bytes, true);
  add(dynamic, bytes, true);
  for (auto const& [begin, a] : on_host::device_memory::all())
    if (!a.freed) add(begin, a.bytes, false);
  counts = true;
}
void end_block(on_host::kernel_symbols const& kernel) {
  counts = false;
  std::stable_sort(accesses.begin(), accesses.end(), [](auto const& a, auto const& b) {
    return std::tie(a.code, a.thread) < std::tie(b.code, b.thread);
  });
  for (std::size_t i = 1; i < accesses.size(); ++i) {
    auto const& before = accesses[i - 1];
    if (accesses[i].code == before.code && accesses[i].thread == before.thread) accesses[i].number = before.number + 1;
  }
  auto const key = [](access const& a) { return std::tuple(a.code, a.is_shared, a.warp(), a.number); };
  std::sort(accesses.begin(), accesses.end(), [&](auto const& a, auto const& b) { return key(a) < key(b); });
  for (std::size_t begin = 0, end = 0; begin < accesses.size(); begin = end) {
    auto const& first = accesses[begin];
    while (end < accesses.size() && key(accesses[end]) == key(first)) ++end;
    auto& to = all[{&kernel, first.code, first.is_shared}];
    ++to.requests;
    if (first.is_shared) add_shared(to, &first, &first + (end - begin));
    else add_global(to, &first, &first + (end - begin));
  }
  accesses.clear();
}

/// More than 16 bytes are several accesses.
void add(void const* code, void const* address, std::size_t bytes) {
  if (!counts) return;
  if (blockDim.y * blockDim.z != 1)
    on_host::violated("accesses", "a block has several dimensions", "they count in one");
  auto const at = reinterpret_cast<std::uintptr_t>(address);
  if (bytes > 16) {
    for (std::size_t i = 0; i < bytes; i += 16)
      add(static_cast<char const*>(code) + i, static_cast<char const*>(address) + i,
          std::min<std::size_t>(16, bytes - i));
    return;
  }
  for (auto const& r : ranges)
    if (at >= r.begin && at < r.end)
      accesses.push_back(
          {reinterpret_cast<std::uintptr_t>(code), at, threadIdx.x, 0, static_cast<std::uint16_t>(bytes), r.is_shared});
}

} // namespace

void on_host::count_access(void const* address, std::size_t bytes) { add(__builtin_return_address(0), address, bytes); }
void on_host::count_accesses() {
  all.clear();
  block::when_started = &start_block;
  block::when_ended = &end_block;
}
std::vector<on_host::accesses_of_place> on_host::counted_accesses() {
  std::vector<accesses_of_place> result;
  for (auto const& [where, t] : all) result.push_back({where.kernel->name, where.is_shared, where.code, t});
  return result;
}

extern "C" {
#define ON_HOST_ACCESS(name, bytes)                                                                                    \
  void name(void* address) { add(__builtin_return_address(0), address, bytes); }
ON_HOST_ACCESS(__tsan_read1, 1)
ON_HOST_ACCESS(__tsan_read2, 2)
ON_HOST_ACCESS(__tsan_read4, 4)
ON_HOST_ACCESS(__tsan_read8, 8)
ON_HOST_ACCESS(__tsan_read16, 16)
ON_HOST_ACCESS(__tsan_write1, 1)
ON_HOST_ACCESS(__tsan_write2, 2)
ON_HOST_ACCESS(__tsan_write4, 4)
ON_HOST_ACCESS(__tsan_write8, 8)
ON_HOST_ACCESS(__tsan_write16, 16)
#undef ON_HOST_ACCESS
void __tsan_read_range(void* address, unsigned long bytes) { add(__builtin_return_address(0), address, bytes); }
void __tsan_write_range(void* address, unsigned long bytes) { add(__builtin_return_address(0), address, bytes); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void*, void*) {}
// The program has one thread.
#define ON_HOST_ATOMICS(bits, type)                                                                                    \
  type __tsan_atomic##bits##_load(type const volatile* x, int) { return *x; }                                          \
  void __tsan_atomic##bits##_store(type volatile* x, type value, int) { *x = value; }                                  \
  type __tsan_atomic##bits##_exchange(type volatile* x, type value, int) {                                             \
    type const before = *x;                                                                                            \
    *x = value;                                                                                                        \
    return before;                                                                                                     \
  }                                                                                                                    \
  type __tsan_atomic##bits##_fetch_add(type volatile* x, type by, int) {                                               \
    type const before = *x;                                                                                            \
    *x = static_cast<type>(before + by);                                                                               \
    return before;                                                                                                     \
  }
ON_HOST_ATOMICS(8, unsigned char)
ON_HOST_ATOMICS(32, unsigned)
ON_HOST_ATOMICS(64, unsigned long)
#undef ON_HOST_ATOMICS
}
