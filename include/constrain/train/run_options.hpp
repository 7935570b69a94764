#pragma once

#include "constrain/train/schedule.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The dynamic loss scale of `precision::fp16` (Micikevicius et al. 2018), as in torch.amp.GradScaler. A step with a
/// gradient that is not finite is skipped, and the scale is multiplied by `backoff`. After `interval` consecutive steps
/// that were not skipped, the scale is multiplied by `growth`. The scale stays between 2^-24 and 2^127. The trainer's
/// setting "loss_scale" is the scale of the next step.
struct loss_scale_options {
  double initial = 65536;       // scale of the first step, in [2^-24, 2^127]
  double growth = 2;            // multiplies the scale at an increase, finite and above 1
  double backoff = 0.5;         // multiplies the scale after a skipped step, above 0 and below 1
  std::int64_t interval = 2000; // consecutive steps without a skip before an increase, at least 1
};

/// How CUDA devices add gradients over the ranks.
enum class reduce {
  ordered, // in rank order, as on CPUs, so that parallel::ddp and parallel::zero give bit-identical results
  fast     // with NCCL's own reductions, in an order that NCCL chooses
};

/// A run's options besides the optimizer's hyperparameters. The constructor of a trainer or an inference object throws
/// `error` for a field out of range. All fields except `.measure_memory`, `.cuda_device` and `.cuda_stream` must be
/// equal on all ranks. Dropout, maximum norm and loss scale are settings: `trainer::set` changes them, and
/// `trainer::load` restores them from the saved run. In the fields, "the trainer" also means an inference object.
struct run_options {
  std::uint64_t seed = 0;          // of the initial weights, the order of samples, dropout and stochastic rounding
  double clip_norm = 0;            // maximum L2 norm of all gradients together, at least 0; 0: no clipping;
                                   // optimizer::in_backward needs 0
  schedule::any schedule{};        // learning-rate schedule (schedules.hpp) or your own function; constant by default;
                                   // no effect if neither the optimizer nor one that it wraps has a `learning_rate`
  double dropout = 0;              // probability with which ct::dropout zeroes an element, in [0, 1); a model without
                                   // ct::dropout needs 0
  loss_scale_options loss_scale{}; // used only with precision::fp16
  // Checks the reads and the first output of every kernel call (slow; for debugging). With precision::fp16, gradients
  // may still overflow as long as the loss scale can fall.
  bool checked = false;
  bool measure_memory = false; // fills the buffers with a pattern, so that `used_bytes()` can find the bytes in use
  double deadline = 1800;      // seconds that a rank waits for other ranks (at least 60 at the start) before it ends
                               // with an error or, if its CUDA device waits, throws `error`; above 0, at most 1e9; used
                               // only with MPI
  constrain::reduce reduce = constrain::reduce::ordered; // used only with a parallel policy and device::cuda
  int cuda_device = -1; // with device::cuda: the device, as in cudaSetDevice; -1: the current device of the thread that
                        // constructs the trainer or, with a parallel policy, device 0 for the first rank on a node,
                        // device 1 for the second, and so on, modulo the number of devices that the rank sees
  // With device::cuda: the caller's cudaStream_t, on which the trainer then does all its work. The stream must belong
  // to the trainer's device and outlive the trainer, which never destroys it. It must not be cudaStreamPerThread or,
  // with launch::graph, cudaStreamLegacy. Null: the trainer creates a stream. See docs/on-a-gpu.md. Must be null on the
  // CPU.
  void* cuda_stream = nullptr;
};

} // namespace constrain
