#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/program.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The memory of a value in the arena, the one allocation that holds all values. A value that does not persist and that
/// no node uses has no buffer. A view, or a value that another value overwrites in place, has none either: it uses the
/// buffer of its root (`root_of`).
struct buffer {
  /// Distance between the instances of a value along one axis.
  struct stride {
    int axis = -1;          // index of the axis in the program
    std::int64_t bytes = 0; // from one iteration to the next
    friend constexpr bool operator==(stride const&, stride const&) = default;
  };

  std::int64_t offset = -1;                          // bytes from the start of the arena; -1: no buffer
  std::int64_t size = 0;                             // bytes of the buffer
  fixed_vector<stride, axis_list::capacity> strides; // of the axes whose iterations have separate instances
  std::int64_t carried_stride = 0;                   // bytes from one instance of a loop-carried value to the next
  // Instances of a loop-carried value in the buffer: n + 1 for n iterations, or 2, which are used alternately.
  std::int64_t carried_instances = 0;
  // First and last node of the value's lifetime. -1 is before the run, and the number of nodes is after the run. `born`
  // of a persistent value is 0, although the value exists before the run.
  int born = 0, dies = 0;
};

/// The buffers of a program's values.
struct memory_layout {
  fixed_vector<buffer, program::maximum_values> buffers; // by index of the value
  std::int64_t persistent_end = 0;                       // bytes of the arena before the values that do not persist
  std::int64_t end = 0;                                  // bytes of the arena that the buffers need
};

/// Whether every buffer begins at a multiple of `alignment` bytes and, in the buffer of a value whose rows are a
/// multiple of 16 bytes long, every instance begins at a multiple of 16 bytes, so that CUDA kernels can access these
/// rows 16 bytes at a time. Views, which have no buffers, are not checked. `where`: the buffers of `p`. `alignment`: a
/// multiple of 16.
constexpr bool has_aligned_buffers(program const& p, memory_layout const& where, std::int64_t alignment) {
  for (int v = 0; v < where.buffers.size(); ++v) {
    auto const& b = where.buffers[v];
    if (b.offset < 0) continue;
    if (b.offset % alignment != 0) return false;
    if (p.values[v].shape.features() * size_of(p.values[v].type) % 16 != 0) continue;
    if (b.carried_stride % 16 != 0) return false;
    for (auto const& s : b.strides)
      if (s.bytes % 16 != 0) return false;
  }
  return true;
}

} // namespace constrain
