#pragma once

#include "constrain/base/checked_unique_ptr.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/run/checked.hpp"
#include "constrain/run/read_real.hpp"
#include "constrain/run/runner.hpp"
#if defined(CONSTRAIN_WITH_CUDA)
#include "constrain/run/cuda_runner.cuh"
#endif
#include "constrain/train/intake.hpp"
#include "constrain/train/run_options.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Owns an arena and runs entry programs (step, evaluate, predict, generate) in it: copies inputs in, runs an entry,
/// and reads results out. `entries`: constrain::entries or inference_entries.
template <class entries> class engine {
  using task = typename entries::task;
  using policy_set = typename entries::policies;

public:
  using target = typename policy_set::target;
  using real = typename entries::real;
  static constexpr bool is_asynchronous = !std::is_same_v<target, cpu>; // `run` may return while the device still works

  /// The ports of an entry.
  template <class planned_entry>
  static constexpr plan_ports ports{planned_entry::value.ports.elements,
                                    static_cast<std::size_t>(planned_entry::value.ports.size())};
  /// An entry's requirements for the caller's arrays.
  template <class planned_entry>
  static constexpr batch_needs needs{ports<planned_entry>, task::tokens, entries::next_tokens, entries::pads};

  /// Chooses the CUDA device for `allocate`. `index`: its index; -1: the current device. `world`: all ranks. With a
  /// parallel policy and device::cuda, calls `device_of_rank` and throws its errors: -1 then means a different device
  /// for each rank on a node, and the call is collective.
  void choose_device([[maybe_unused]] int index, [[maybe_unused]] communicator& world) {
    if constexpr (is_distributed_cuda) device_ = runner_type::device_for(index, world);
    else device_ = index;
  }
  /// Connects the devices of the ranks with NCCL; does nothing without a parallel policy or on the CPU. Call this
  /// function after `allocate`. `data`: the ranks that train on different data. `zero`: the ranks that together hold
  /// the shards of a tensor. `o`: its fields `deadline` and `reduce` are used. Throws `error` if CUDA, NCCL or the
  /// communication fails, or if another rank does not connect before the deadline. Collective.
  void connect([[maybe_unused]] communicator& data, [[maybe_unused]] communicator& zero,
               [[maybe_unused]] run_options const& o) {
    if constexpr (is_distributed_cuda) runner_->connect(data, zero, o.deadline, o.reduce == reduce::ordered);
  }
  /// Allocates the arena. With `checked`, `run` checks each kernel call's reads and first output (see run/checked.hpp).
  /// With `measure_memory`, fills the buffers with a pattern, so that `used` can find the bytes written. On a CUDA
  /// device, `cuda_stream` is the stream; null: a new stream. Throws `error` if the memory cannot be allocated, or if
  /// the device or the stream cannot be used.
  void allocate(run_options const& o) {
    checked_ = o.checked;
    if constexpr (std::is_same_v<target, cpu>)
      runner_ = std::make_unique<runner_type>(entries::memory.peak, entries::scratch);
    else {
      runner_ = std::make_unique<runner_type>(entries::memory.peak, entries::scratch, device_, o.cuda_stream);
      runner_->context().use_tf32(policy_set::precision::value.tf32);
    }
    // Allocated after the arena, because the error of the arena, unlike bad_alloc, names the size.
    valid_labels_ = std::make_unique<std::int64_t[]>(micro_batches);
    if (o.measure_memory) arena().fill_pattern(bytes(entries::buffers_end));
  }

  /// The arena. Valid after `allocate`.
  constrain::arena& arena() const { return runner_->arena(); }
  /// Bytes of the arena up to the last byte written so far, plus the bytes after all buffers (step parameters, scratch
  /// memory). Valid only after `allocate` with `measure_memory`, and without `checked`, which writes to all buffers.
  bytes used() const {
    return arena().used(bytes(entries::buffers_end)) + entries::memory.peak - bytes(entries::buffers_end);
  }

  /// Whether the gradients of the last step are still valid: evaluate, predict and generate may overwrite them.
  bool gradients_kept() const { return gradients_kept_; }
  /// Sets `gradients_kept` to true, for use after a step.
  void keep_gradients() { gradients_kept_ = true; }
  /// Sets `gradients_kept` to false: after loading weights, because the gradients belong to the old weights; before
  /// casts that may overwrite gradients; and at the beginning of a step on several ranks, so that a rank whose batch is
  /// refused drops its gradients like the other ranks.
  void drop_gradients() { gradients_kept_ = false; }

  /// Prepares a run of an entry: copies its inputs and labels into the arena, counts the valid labels of each
  /// micro-batch, and sets `gradients_kept` to false. Returns the number of valid labels; 0 for an entry without
  /// labels. Throws `error`, which begins with `caller`, for a token or label out of range.
  template <class planned_entry>
  std::int64_t begin(char const* caller, array_list const& inputs, array_list const& labels = {}) {
    gradients_kept_ = false; // inputs may share memory with gradients
    poison();
    batch_copier const into_arena(caller, arena());
    into_arena(ports<planned_entry>, port_kind::input, inputs);
    constexpr int counts = planned_entry::value.micro_batches < 0 ? 1 : micro_batches;
    return into_arena.labels(ports<planned_entry>, labels, {valid_labels_.get(), counts});
  }

  /// Passes the number of valid labels, at least 1, to the next run of an entry, unless no node reads it. In a step,
  /// this is the number in the batch of all ranks; in an evaluation, the number in the micro-batch.
  template <class planned_entry> void write_label_count(std::int64_t valid_labels) {
    constexpr auto const& view = planned_entry::value.inverse_label_count;
    double const inverse = 1.0 / static_cast<double>(valid_labels);
    if (view.elements > 0) arena().write(view.offset, &inverse, sizeof inverse);
  }

  /// Runs an entry. `parameters`: all but `valid_labels`, which this function sets, and `context`, which the runner
  /// sets. `passes`: the passes that made the entry's program; checked mode needs the program's values. `call`: the
  /// library call during which the entry runs. `may_overflow`: see `checked_hooks`. Throws `error` if CUDA reports an
  /// error and, in checked mode, if a check fails. Also throws what a kernel throws.
  template <class planned_entry, class passes, joint_call call>
  void run(step_parameters parameters, bool may_overflow = false) {
    // Instantiates the check that every kernel exists; a missing kernel is a compile-time error.
    static_assert(sizeof(plan_has_kernels<planned_entry, target>) > 0);
    parameters.valid_labels = valid_labels_.get();
    if (checked_) return run_checked<planned_entry, passes>(parameters, may_overflow);
    runner_->template run<planned_entry, call>(parameters);
  }
  /// Whether kept compute copies are out of date: a parameter has changed since the last call to `update_copies`, other
  /// than by a step.
  bool has_stale_copies() const {
    if constexpr (!entries::keeps_copies) return false;
    else return arena().has_changed(bytes(entries::parameters_end));
  }
  /// If `has_stale_copies`, casts all parameters to their copies. Call this function before `begin`, because the casts
  /// may use the memory of inputs. `parameters`, `call`: as for `run`. Throws what a kernel throws and, in checked
  /// mode, `error` if a check fails.
  template <joint_call call> void update_copies(step_parameters const& parameters) {
    if (!has_stale_copies()) return;
    if constexpr (entries::keeps_copies) {
      using casts = typename entries::casts;
      if (casts::where.end > entries::persistent_end) drop_gradients();
      if (checked_) run_checked<casts, typename entries::casts_program>(parameters, false);
      else runner_->template run<casts, call>(parameters);
      arena().forget_changes();
    }
  }
  /// `run` in checked mode.
  template <class planned_entry, class passes>
  [[gnu::noinline, gnu::cold]] void run_checked(step_parameters const& parameters, bool may_overflow) {
    static constexpr auto values = make_checked_table<passes::final.values.count>(passes::final);
    constexpr auto const& plan = planned_entry::value;
    checked_hooks checks(arena(), plan.operands, values.values, may_overflow);
    for (auto const& port : plan.ports)
      if (port.kind != port_kind::result) checks.wrote(port.view);
    checks.wrote(plan.hyper), checks.wrote(plan.inverse_label_count);
    runner_->template run<planned_entry>(parameters, checks);
  }

  /// Begins to enqueue the entry `step`. Returns a `runner::enqueuing`. On a CUDA device, until `end` of the returned
  /// object is called, copies to the arena do not wait for the device. On the CPU, the object does nothing.
  template <class step> auto enqueuing() { return typename runner_type::template enqueuing<step>(*runner_); }

  /// Element i of the result `view`, converted to double from any floating-point dtype.
  double read(host_view const& view, std::int64_t i = 0) const { return read_real(arena(), view, i); }

  /// Elements [first, first + count), in row-major order, of the logits of an entry's last run.
  template <class planned_entry> std::vector<real> logits(std::int64_t first, std::int64_t count) const {
    constexpr auto view = planned_entry::value.result("logits");
    std::vector<storage<view.type>> logits(static_cast<std::size_t>(count));
    arena().read(view.offset + first * size_of(view.type), logits.data(), count * size_of(view.type));
    return {logits.begin(), logits.end()};
  }

private:
  static constexpr auto parallelism = policy_set::parallelism::value;
  static constexpr bool is_distributed_cuda =
      !std::is_same_v<target, cpu> && parallelism.distributed && parallelism.has_nccl && parallelism.has_mpi;
  // Without a CUDA device, a policy that captures graphs is refused.
  using runner_type = runner<target, is_asynchronous && policy_set::launching::value.captures>;
  static constexpr int micro_batches = std::max(policy_set::accumulation::value.micro_batches, 1); // 0 is refused

  /// In checked mode, writes 0xFF bytes (NaN in every float type) to all memory whose content does not persist between
  /// runs.
  void poison() {
    if (!checked_) return;
    auto const begin = entries::persistent_end;
    arena().fill(begin, entries::memory.peak.count() - begin, 0xFF);
  }

  checked_unique_ptr<runner_type> runner_;
  std::unique_ptr<std::int64_t[]> valid_labels_; // of each micro-batch; unlike a std::vector, survives a self-move
  bool checked_ = false, gradients_kept_ = false;
  int device_ = -1; // index of the CUDA device; -1: the current one
};

} // namespace constrain::detail
