#pragma once

#include "constrain/base/units.hpp"
#include "constrain/device/rates.hpp"
#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/pass/memory_planning.hpp"
#include "constrain/program/op_info.hpp"

#include <algorithm>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How a trainer or an inference object uses its memory on one rank. `peak` and the reserve in `workspace` cover every
/// program that the object runs: step, evaluate, predict, generate and, if compute copies are kept, `casts_passes`. All
/// other fields describe only the step program of a trainer, or the evaluate program of an inference object. Of a
/// tensor that ranks hold together, only this rank's part counts. No field is negative. The sum of the fields before
/// `shared`, minus `shared`, is `peak`, unless another program needs more than the described one.
struct memory_plan {
  bytes weights;         // of parameters in the type that kernels read (the compute copy, if there is one)
  bytes master_weights;  // of parameters with a compute copy; the optimizer updates the trained ones, not the copies
  bytes gradients;       // of all trained parameters, or with optimizer::in_backward the maximum at any time
  bytes optimizer_state; // of all trained parameters
  bytes activations;     // the maximum at any time of values kept for the backward pass, temporaries, inputs, results,
                         // settings and hyperparameters; or, if that is more, all bytes that no other field counts
  bytes workspace;       // `device_reserve`, and the maximum at any time of scratch of kernels, temporary copies, and
                         // temporary tensors of rounding errors during the update of 16-bit parameters
  bytes communication;   // temporary full tensors and shards, and buffers of collectives; the maximum at any time
  bytes offloaded;       // always 0: all values are in the arena, on the device
  bytes shared;          // bytes that several fields count, because values of these fields use them one after another
  bytes peak;            // size of the arena, the one allocation that holds all values
};

/// The work of one run of a program, over all loop iterations. The fields are upper bounds if a loop skips iterations
/// without a valid label (`labelled_rows`).
struct work_plan {
  double flops = 0;                 // floating-point operations, by the cost rules; a multiply-add counts as 2
  double bytes_moved = 0;           // bytes that kernels read and write, by the cost rules; with `cost_by_operands`, an
                                    // output that the kernel also reads counts only once
  std::int64_t kernel_launches = 0; // on a CUDA device: launches of kernels and GEMMs, and collectives (one each); on
                                    // the CPU: kernel calls
  std::int64_t collectives = 0;     // calls that exchange data between ranks
};

/// Whether kernels read a copy of this parameter in a different type. `parameter`: index of the value.
constexpr bool is_copied(program const& p, int parameter) {
  for (auto const& info : p.values)
    if (is_compute_copy(info.role) && info.belongs_to == parameter) return true;
  return false;
}

/// The maximum number of bytes that the values with `is_wanted(role)` need at the same time.
template <class predicate>
constexpr bytes peak_live_bytes(program const& p, memory_layout const& where, predicate const& is_wanted) {
  std::int64_t change[program::maximum_nodes + 2]{}; // by node: bytes first needed there, minus bytes freed
  bool has_buffers = false;
  for (int v = 0; v < p.values.size(); ++v) {
    if (!is_wanted(p.values[v].role)) continue;
    auto const& b = where.buffers[v];
    if (b.offset < 0) continue;
    change[b.born < 0 ? 0 : b.born] += b.size;
    change[b.dies + 1] -= b.size;
    has_buffers = true;
  }
  std::int64_t peak = 0, live = 0;
  for (int i = 0; has_buffers && i <= p.nodes.size(); ++i) {
    live += change[i];
    peak = live > peak ? live : peak;
  }
  return bytes(peak);
}
/// The maximum number of bytes that values of one role need at the same time.
constexpr bytes peak_live_bytes(program const& p, memory_layout const& where, role wanted) {
  return peak_live_bytes(p, where, [=](role r) { return r == wanted; });
}

/// The part of the arena after the buffers of all programs: step parameters and scratch memory of kernels.
struct device_reserve {
  std::int64_t bytes = 0;     // size of this part
  std::int64_t alignment = 1; // alignment of the beginning of this part, in bytes

  /// The offset at which this part begins if the buffers end at `end`.
  constexpr std::int64_t begin(std::int64_t end) const {
    return bytes == 0 ? end : (end + alignment - 1) / alignment * alignment;
  }
};

/// The memory plan of a trainer with the step program `p`, or of an inference object with the evaluate program `p`.
/// `where`: the memory layout of `p`. `other_peak`: bytes of the arena that the largest of the other programs needs.
/// `reserve`: the part of the arena after the buffers.
constexpr memory_plan memory_of(program const& p, memory_layout const& where, std::int64_t other_peak,
                                device_reserve const& reserve = {}) {
  bool copied[program::maximum_values]{}; // parameters that kernels read as a copy in a different type
  for (auto const& info : p.values)
    if (is_compute_copy(info.role)) copied[info.belongs_to] = true;
  memory_plan m;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const value_role = p.values[v].role;
    bytes memory_plan::*const field = is_parameter(value_role)
                                          ? (copied[v] ? &memory_plan::master_weights : &memory_plan::weights)
                                      : is_compute_copy(value_role) ? &memory_plan::weights
                                      : value_role == role::state   ? &memory_plan::optimizer_state
                                                                    : nullptr;
    if (field != nullptr && where.buffers[v].offset >= 0) m.*field = m.*field + bytes(where.buffers[v].size);
  }
  m.gradients = peak_live_bytes(p, where, role::gradient);
  m.workspace = peak_live_bytes(p, where, role::workspace);
  m.communication = peak_live_bytes(p, where, role::communication);
  auto const without_activations =
      m.weights + m.master_weights + m.gradients + m.optimizer_state + m.workspace + m.communication;
  m.activations = peak_live_bytes(p, where, [](role r) {
    return !is_parameter(r) && !is_compute_copy(r) && r != role::state && r != role::gradient && r != role::workspace &&
           r != role::communication;
  });
  if (bytes(where.end) - without_activations > m.activations) m.activations = bytes(where.end) - without_activations;
  m.shared = without_activations + m.activations - bytes(where.end);
  auto const end = where.end > other_peak ? where.end : other_peak;
  m.peak = bytes(reserve.begin(end) + reserve.bytes);
  m.workspace = m.workspace + m.peak - bytes(end);
  return m;
}

namespace detail {

/// The number of instances on which the call `n` works: the maximum over its operands, at least 1. `open`: the axes of
/// the loops around the call.
constexpr std::int64_t maximum_instances(program const& p, node const& n, axis_list const& open) {
  std::int64_t maximum = 1;
  for (auto const& r : n.inputs) maximum = std::max(maximum, p.instances(p.values[r.value], open));
  for (auto const& r : n.outputs) maximum = std::max(maximum, p.instances(p.values[r.value], open));
  return maximum;
}

/// Calls f(i, cost, runs) for each node i that is a call. `cost`: the cost of one run of the call, by the cost rule of
/// its op; `runs`: how often the call runs. The cost rule gives the cost for one instance of each operand; a call works
/// on all instances over the axes without an open loop, so the rule's cost is multiplied by `maximum_instances`.
template <class function> constexpr void for_each_cost(program const& p, function const& f) {
  double iterations = 1;
  axis_list open;
  fixed_vector<double, axis_list::capacity> outer_iterations; // for each open loop: `iterations` outside of it
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (n.kind == node_kind::loop) {
      // A loop over the iterations within a segment (recompute.hpp) can have fewer iterations in the last segment, so
      // `count` is the mean.
      auto const& a = p.axes[n.axis];
      double const count = a.original >= 0 && a.factor == 1
                               ? static_cast<double>(p.axes[a.original].extent) /
                                     static_cast<double>((p.axes[a.original].extent + a.extent - 1) / a.extent)
                               : static_cast<double>(a.extent);
      open.push_back(n.axis);
      outer_iterations.push_back(iterations);
      iterations *= count;
    } else if (n.kind == node_kind::end) {
      iterations = outer_iterations.back();
      outer_iterations.pop_back();
      open.pop_back();
    } else {
      operand_types inputs, outputs;
      for (auto const& r : n.inputs) inputs.push_back({p.values[r.value].type, p.values[r.value].shape});
      for (auto const& r : n.outputs) outputs.push_back({p.values[r.value].type, p.values[r.value].shape});
      auto c = n.op->cost_of(inputs, outputs, n.attributes);
      auto const instances = static_cast<double>(maximum_instances(p, n, open));
      c.flops *= instances, c.bytes_read *= instances, c.bytes_written *= instances;
      f(i, c, iterations);
    }
  }
}

} // namespace detail

/// The work of one run of a program, by the cost rules of its ops. `launches(i)`: the number of launches of one run of
/// the call at node i.
template <class function> constexpr work_plan work_of(program const& p, function const& launches) {
  work_plan total;
  detail::for_each_cost(p, [&](int i, cost const& c, double iterations) {
    total.flops += iterations * c.flops;
    total.bytes_moved += iterations * (c.bytes_read + c.bytes_written);
    auto const runs = static_cast<std::int64_t>(iterations + 0.5);
    total.collectives += p.nodes[i].op->exchanges ? runs : 0;
    total.kernel_launches += runs * launches(i);
  });
  return total;
}
/// The work of one run of a program, with one launch per call.
constexpr work_plan work_of(program const& p) {
  return work_of(p, [](int) { return std::int64_t{1}; });
}

namespace detail {

/// The FLOP/s of a call on a device with these rates; 0: unknown. `tf32`: whether GEMMs round fp32 operands to TF32.
constexpr double speed_of(program const& p, node const& n, device_rates const& rates, bool tf32) {
  auto const type_of_input = [&](int k) { return p.values[n.inputs[k].value].type; };
  if (n.op->gemm_operands == 0) {
    bool const attends = calls(n, info_of<op::flash_attention>) || calls(n, info_of<op::flash_attention_gradient>);
    return attends && rates.attention > 0 && is_narrow(type_of_input(0)) ? rates.attention : rates.operations;
  }
  auto const type = type_of_input(n.op->gemm_operands % 2 != 0 ? 0 : 1); // bit 0: whether input 0 is an operand
  return type == dtype::f64    ? rates.gemm_64
         : type == dtype::bf16 ? rates.gemm_bf16
         : type == dtype::f16  ? rates.gemm_fp16
         : tf32                ? rates.gemm_tf32
                               : rates.gemm_32;
}

/// Whether every rate by which the estimate of a program divides is from 1 to 1e30, and the overhead per launch from 0
/// to 1e30; then the estimate is finite.
constexpr bool has_rates(program const& p, device_rates const& rates, bool tf32) {
  auto const is_valid_rate = [](double x) { return x >= 1 && x <= 1e30; };
  bool are_valid = is_valid_rate(rates.bytes) && rates.launch >= 0 && rates.launch <= 1e30;
  for (auto const& n : p.nodes)
    are_valid = are_valid && (n.kind != node_kind::call || is_valid_rate(speed_of(p, n, rates, tf32)));
  return are_valid;
}

/// Calls f(i, runs, seconds, is_compute_bound) for each node i that is a call. `runs`: how often the call runs.
/// `seconds`: the estimated time of all these runs, by the roofline model. `is_compute_bound`: whether the call's
/// arithmetic takes longer than its accesses to memory.
template <class function>
constexpr void for_each_time(program const& p, device_rates const& rates, bool tf32, function const& f) {
  for_each_cost(p, [&](int i, cost const& c, double runs) {
    double const compute_seconds = c.flops / speed_of(p, p.nodes[i], rates, tf32);
    double const memory_seconds = (c.bytes_read + c.bytes_written) / rates.bytes;
    f(i, runs, runs * (rates.launch + (compute_seconds > memory_seconds ? compute_seconds : memory_seconds)),
      compute_seconds > memory_seconds);
  });
}

} // namespace detail

/// Estimates the seconds that one run of a program takes on a device with these rates. By the roofline model (Williams
/// et al. 2009), each call takes the time of its operations or of its bytes, whichever is longer, plus the time of a
/// launch. Transfers between ranks take no time in this estimate: a call that exchanges data is estimated by its
/// operands, like any other call. `tf32`: whether GEMMs round fp32 operands to TF32. Returns infinity if a rate that
/// the estimate needs is 0 (unknown) or out of range.
constexpr double estimated_seconds(program const& p, device_rates const& rates, bool tf32 = false) {
  if (!detail::has_rates(p, rates, tf32)) return std::numeric_limits<double>::infinity();
  double total = 0;
  detail::for_each_time(p, rates, tf32, [&](int, double, double seconds, bool) { total += seconds; });
  return total;
}

} // namespace constrain
