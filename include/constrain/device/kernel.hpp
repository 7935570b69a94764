#pragma once

#include "constrain/program/attributes.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

class communicator;
class cuda_context;

/// The parameters of one run of an entry program, which kernels read and the host writes.
struct step_parameters {
  std::uint64_t seed = 0;          // of the run
  std::int64_t step = 0;           // updates done before this one, skipped ones included: keys randomness
  std::int64_t updates = 0;        // weights' updates done before this one: Adam's t is one more
  double inverse_label_count = 1;  // 1 / valid labels of the batch
  double clip_norm = 0;            // 0: no clipping
  double dropout = 0;              // probability of a zero
  std::int64_t first_sample = 0;   // of this process in the global batch
  std::int64_t samples = 0;        // of one micro-batch
  communicator* world = nullptr;   // all ranks
  communicator* group = nullptr;   // those that hold the shards of one tensor
  cuda_context* context = nullptr; // of a CUDA device
};

/// One operand of a kernel: `shape` is one instance, `count` all elements (more, where a whole stack is meant).
template <class T> struct tensor {
  T* data = nullptr;                          // the first element; row-major, without gaps
  constrain::shape const* shape_of = nullptr; // of one instance
  std::int64_t count = 0;                     // elements, of all instances that are meant

  /// Of one instance, its innermost extent, and how many vectors of so many elements all instances have.
  constrain::shape const& shape() const { return *shape_of; }
  std::int64_t features() const { return shape_of->features(); }
  std::int64_t rows() const { return count / (features() == 0 ? 1 : features()); }
  /// Element i.
  T& operator[](std::int64_t i) const { return data[i]; }
};

/// What a kernel knows of its call beside the operands.
struct call {
  attributes const& options;         // of the node
  step_parameters const& parameters; // of the run: step, labels, dropout
  unsigned adds = 0;                 // bit j: add to output j instead of overwriting it
  int random_key = 0;                // of the node
  std::uint64_t iteration = 0;       // of the loops around, without the micro-batches
  std::int64_t first_sample = 0;     // index of this micro-batch's first sample in the global batch
  bool more_tensors_follow = false;  // at once, so that a device may start several calls together

  /// Whether the kernel adds to an output instead of overwriting it.
  bool add_to(int output) const { return (adds >> output & 1u) != 0; }
};

/// The kernel of `op` on `device`: specialised beside the op, with a static member
/// `run(call const&, tensor<in const>..., tensor<out>...)`, operands in the order of the node.
template <class op, class device> struct kernel;

/// The host's processor.
struct cpu {
  static constexpr std::int64_t reserve = 0; // bytes of the arena that the device needs for itself
};

/// Streaming multiprocessors of compute capability `number`: 80 is 8.0.
template <int number> struct sm { static constexpr int capability = number; };

/// A CUDA device; its kernels are compiled for `architecture`.
template <class architecture> struct cuda {
  static constexpr std::int64_t workspace = 32 << 20; // of the GEMMs
  static constexpr std::int64_t parameters = 256;     // of the run
  static constexpr std::int64_t reserve = workspace + parameters;
};

} // namespace constrain
