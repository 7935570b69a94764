#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/device/cpu/signal_stack.hpp"
#include "constrain/run/executor.hpp"
#include "constrain/run/host_arena.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Runs plans on a device. Owns the arena and the other resources that the kernels need. `graph`: whether the kernel
/// launches of each plan are captured once in a CUDA graph, then replayed.
template <class device, bool graph> class runner;

/// The runner for the CPU.
template <> class runner<cpu, false> {
public:
  /// `size`: bytes of the arena. The arena's last `scratch` bytes are the scratch memory that all plans share. If
  /// `scratch` is not 0, `size` - `scratch` must be a multiple of `cpu::alignment`. Throws `error` if the memory cannot
  /// be allocated.
  runner(bytes size, std::int64_t scratch) : arena_(size), scratch_(arena_.data() + size.count() - scratch) {}

  /// The memory that the plans work on.
  constrain::arena& arena() { return arena_; }
  constrain::arena const& arena() const { return arena_; }

  /// Runs the plan `planned_entry::value` once; the run is complete when the function returns. `h`: the hooks. The
  /// second template parameter, `call` in the runner for a CUDA device, is not used here. Throws what a kernel or a
  /// hook throws.
  template <class planned_entry, joint_call = joint_call::step, class hooks = no_hooks>
  void run(step_parameters const& parameters, hooks&& h = {}) {
    give_signal_stacks();
    execute(view_of<planned_entry, cpu>(), arena_.data(), parameters, h, scratch_);
  }

  /// The counterpart of `cuda_enqueuing`, so that a trainer's code compiles for both devices. Does nothing, because a
  /// run is complete when `run` returns.
  template <class planned_entry> struct enqueuing {
    explicit enqueuing(runner&) {}
  };

private:
  host_arena arena_;
  std::byte* scratch_;
};

} // namespace constrain
