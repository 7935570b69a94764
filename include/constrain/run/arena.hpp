#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/units.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The single memory block of a trainer or an inference object, on the object's device. It is never resized, and its
/// contents are not initialized. The host reads and writes it by byte offset. An access out of bounds throws `error`
/// and changes nothing. On a CUDA device, every access throws `error` if CUDA fails.
class arena {
public:
  /// `size`: bytes of the memory block.
  explicit arena(bytes size) : size_(size) {}
  virtual ~arena() = default;
  arena(arena const&) = delete;
  arena& operator=(arena const&) = delete;

  /// The address that kernels use.
  virtual std::byte* data() const = 0;
  /// The address that the host can use; null for device memory.
  virtual std::byte* host() const = 0;
  /// Copies `count` bytes at `offset` to the host memory `to`. The copy is complete when the function returns.
  void read(std::int64_t offset, void* to, std::int64_t count) const {
    check(offset, count), copy_out(offset, to, count);
  }
  /// Copies `count` bytes from the host memory `from` to `offset`. When the function returns, `from` may change, with
  /// one exception: if the arena is in device memory and `from` is pinned, `from` must not change before a later `read`
  /// returns.
  void write(std::int64_t offset, void const* from, std::int64_t count) {
    check_write(offset, count), copy_in(offset, from, count);
  }
  /// Sets `count` bytes at `offset` to `value`.
  void fill(std::int64_t offset, std::int64_t count, unsigned char value) {
    check_write(offset, count), set(offset, count, value);
  }

  /// The size of the memory block.
  bytes size() const { return size_; }

  /// Calls `f(data)` once to change the `count` bytes at `offset`. `data`, a std::byte*, points to these bytes if the
  /// host can address the arena, otherwise to a copy that is written back after the call.
  template <class function> void edit(std::int64_t offset, std::int64_t count, function const& f) {
    check_write(offset, count);
    if (auto* const host_data = host()) return f(host_data + offset);
    std::vector<std::byte> copy(static_cast<std::size_t>(count));
    read(offset, copy.data(), count);
    f(copy.data());
    write(offset, copy.data(), count);
  }

  /// Calls `f(data)` once to overwrite the `count` bytes at `offset`. `data`, a std::byte*, points to these bytes if
  /// the host can address the arena, otherwise to a buffer that is copied to them after the call. `f` must write every
  /// byte and read none.
  template <class function> void produce(std::int64_t offset, std::int64_t count, function const& f) {
    check_write(offset, count);
    if (auto* const host_data = host()) return f(host_data + offset);
    std::vector<std::byte> buffer(static_cast<std::size_t>(count));
    f(buffer.data());
    write(offset, buffer.data(), count);
  }

  /// Whether `write`, `fill`, `edit` or `produce` has been called with an offset below `end`, or `mark_changed` with
  /// such an offset, since the last call to `forget_changes` or, without one, since construction.
  bool has_changed(bytes end) const { return first_changed_ < end.count(); }
  /// Counts as a change at `offset`. A call that changes a tensor on several ranks calls this function even on a rank
  /// that holds none of the tensor's elements, so that `has_changed` is the same on all ranks.
  void mark_changed(std::int64_t offset) { first_changed_ = std::min(first_changed_, offset); }
  void forget_changes() { first_changed_ = std::numeric_limits<std::int64_t>::max(); }

  /// Fills the first `count` bytes with a pattern, so that `used` can later find the last overwritten byte.
  void fill_pattern(bytes count) { fill(0, count.count(), pattern); }

  /// The number of bytes from the arena's start through the last byte that no longer holds the pattern of
  /// `fill_pattern`; 0 if all bytes hold it. Searches only the first `count` bytes.
  bytes used(bytes count) const {
    std::byte block[4096];
    for (auto end = count.count(); end > 0;) {
      auto const n = std::min<std::int64_t>(sizeof block, end);
      read(end - n, block, n);
      for (auto i = n; i > 0; --i)
        if (block[i - 1] != std::byte{pattern}) return bytes(end - n + i);
      end -= n;
    }
    return bytes(0);
  }

protected:
  // `read`, `write` and `fill` call these after they have checked the bounds.
  virtual void copy_out(std::int64_t offset, void* to, std::int64_t count) const = 0;
  virtual void copy_in(std::int64_t offset, void const* from, std::int64_t count) = 0;
  virtual void set(std::int64_t offset, std::int64_t count, unsigned char value) = 0;

private:
  /// Checks the bounds of a change, and records it.
  void check_write(std::int64_t offset, std::int64_t count) { check(offset, count), mark_changed(offset); }
  void check(std::int64_t offset, std::int64_t count) const {
    if (offset < 0 || count < 0 || offset > size_.count() || count > size_.count() - offset) refuse(offset, count);
  }
  [[noreturn, gnu::noinline, gnu::cold]] void refuse(std::int64_t offset, std::int64_t count) const {
    throw error({"the arena of ", counted(size_.count(), "byte"), " was accessed out of bounds: ",
                 counted(count, "byte"), " from byte ", offset, "; stay within the arena"});
  }

  // Any value will do. `used` cannot tell a byte that was overwritten with this value from an unused byte.
  static constexpr unsigned char pattern = 0xA5;
  bytes size_;
  std::int64_t first_changed_ = std::numeric_limits<std::int64_t>::max(); // the lowest changed offset
};

} // namespace constrain
