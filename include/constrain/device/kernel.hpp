#pragma once

#include "constrain/program/options.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

class communicator;
class cuda_context;

/// Parameters of one run of an entry program (step, evaluate, ...): written by the host, read by kernels. Trainers and
/// inference objects set all three communicators, even for a single rank. Device code reads a copy (`parameters_on`),
/// whose pointers are valid only on the host.
struct step_parameters {
  std::uint64_t seed = 0;          // seed of all ops that draw random numbers
  std::int64_t step = 0;           // optimizer steps before this run, including skipped ones; selects random numbers
  std::int64_t updates = 0;        // like `step`, without the steps that the host knows were skipped; Adam's t - 1
  std::int64_t first_sample = 0;   // index of this rank's first sample in the global batch
  std::int64_t samples = 0;        // number of samples in a micro-batch of one rank
  communicator* data = nullptr;    // the ranks that train on different data and have the same rank in `tensor`
  communicator* zero = nullptr;    // the ranks that together hold one full set of shards
  communicator* tensor = nullptr;  // the ranks over which tensor parallelism divides a tensor
  cuda_context* context = nullptr; // context of kernels on a CUDA device; null on the CPU
  // Number of valid labels in each micro-batch of this rank, in host memory. Loops over rows skip the iterations
  // without a valid label, except an iteration that begins at row 0; if this pointer is null, they skip none.
  std::int64_t const* valid_labels = nullptr;
};

/// An operand of a kernel: one instance of a value, or several instances together (a stack over the iterations of the
/// loops that do not enclose the call). The elements are contiguous, unless the op declares that the operand may be
/// strided (program/op_info.hpp).
template <class T> struct tensor {
  T* data = nullptr;                          // the first element; row-major
  constrain::shape const* shape_of = nullptr; // shape of one instance
  std::int64_t count = 0;                     // elements of all instances in this operand
  std::int64_t stride = 0;                    // elements from one row to the next; 0: the operand is contiguous

  /// The shape of one instance.
  constrain::shape const& shape() const { return *shape_of; }
  /// The innermost extent of the shape, and the number of rows of this length in all instances.
  std::int64_t features() const { return shape_of->features(); }
  std::int64_t rows() const { return count / (features() == 0 ? 1 : features()); }
  /// Elements from the first element of a row to the first element of the next row.
  std::int64_t row_stride() const { return stride == 0 ? features() : stride; }
  /// Element i in row-major order. The operand must be contiguous.
  T& operator[](std::int64_t i) const { return data[i]; }
};

/// A kernel's arguments besides its operands.
struct call {
  constrain::attributes const& attributes; // packed options of the node; kernels read `call_of<op>::options` instead
  step_parameters const& parameters;       // parameters of this run of the entry program
  unsigned adds = 0;                       // bit j: add to output j instead of overwriting it
  int random_key = 0;                      // random-number key, shared by the node, its gradient and its recomputation
  std::uint64_t iteration = 0;      // index of the iteration of the enclosing loops, without the micro-batch loop
  std::int64_t first_sample = 0;    // index of this micro-batch's first sample in the global batch
  std::byte* scratch = nullptr;     // the bytes that the kernel asks for (kernel_needs.hpp); later calls reuse them
  int merged_before = 0;            // number of calls before this one that are merged with it (kernel_needs.hpp)
  bool more_tensors_follow = false; // the next call is merged with this one, so this call launches nothing

  /// Whether the kernel adds to output number `output`, counted from 0, instead of overwriting it.
  bool add_to(int output) const { return (adds >> output & 1u) != 0; }
  /// The scratch memory as elements of type T; its first byte is aligned as `alignment` of the kernel tag says.
  template <class T> T* scratch_as() const { return reinterpret_cast<T*>(scratch); }
};

/// A call with the options of its op, for kernels: `c.options.heads`.
template <class options_type> struct call_with_options : call {
  options_type options; // options of the node

  /// Unpacks the options of a call. The conversion is implicit, because the executor passes a `call`.
  call_with_options(call const& c) : call(c), options(unpack<options_type>(c.attributes)) {}
};

namespace detail {
template <class options> struct call_type { using type = call_with_options<options>; };
template <> struct call_type<no_options> { using type = call; };
} // namespace detail

/// A call to `op`, the first argument of the op's kernel: `call_with_options`, or `call` if the op has no options.
template <class op> using call_of = typename detail::call_type<options_of<op>>::type;

/// The kernel of `op` on `device`. Each specialization has a static member function
/// `run(call_of<op> const&, tensor<in const>..., tensor<out>...)`, whose first parameter may also be a `call const&`.
/// The operands are in the node's order. A kernel that needs scratch memory, or more than one launch, declares this
/// with `needs_of` (kernel_needs.hpp).
template <class op, class device> struct kernel;

/// Whether `op` has a kernel for `device`: a specialization of `kernel<op, device>`. Define the specialization before
/// the first trainer that may call the op.
template <class op, class device> concept has_kernel = requires { sizeof(kernel<op, device>); };

/// The kernel tag of the host's processor.
struct cpu {
  static constexpr std::int64_t parameter_bytes = 0; // of the arena, for the step parameters; 0: they are not copied
  static constexpr std::int64_t alignment = 64;      // alignment of buffers and scratch memory, in bytes: a cache line
  static constexpr bool has_launches = false;        // false: a call to a kernel counts as one launch
};

/// A CUDA compute capability, times ten: sm<80> is 8.0.
template <int number> struct sm { static constexpr int capability = number; };

/// The lowest compute capability that the library's kernels support, times ten.
inline constexpr int lowest_capability = 80;

/// The kernel tag of CUDA devices with at least the compute capability of `architecture`.
template <class architecture> struct cuda {
  static constexpr std::int64_t parameter_bytes = 256; // of the arena, for the step parameters
  static constexpr std::int64_t alignment = 256; // alignment of buffers and scratch memory, in bytes, for cuBLASLt
  static constexpr bool has_launches = true;     // true: a call counts as `kernel_needs::launches` launches
};

} // namespace constrain
