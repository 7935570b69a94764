#pragma once

#include <constrain/constrain.hpp>
#include <constrain/run/step_rules.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "dropout_if_any.hpp"
#include "op/mask_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace constrain::test {

/// How far a device's result may be from the CPU's on the same inputs, relative to the norm of the tensor. For codes:
/// the share of the codes that may be one off, since a value may lie between two codes.
inline double tolerance(dtype type) {
  return type == dtype::bf16  ? 4e-3
         : type == dtype::f16 ? 1e-3
         : type == dtype::f32 ? 1e-5
         : type == dtype::f64 ? 1e-10
         : type == dtype::u8  ? 2e-3
                              : 0;
}

/// The share of the codes that differ; 1 if a code is more than one off.
inline double distance_of_codes(std::byte const* a, std::byte const* b, std::int64_t count) {
  std::int64_t differ = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const off = std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
    if (off > 1) return 1;
    differ += off;
  }
  return static_cast<double>(differ) / static_cast<double>(count);
}

template <class real> double distance(std::byte const* a, std::byte const* b, std::int64_t count) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    real x, y;
    std::memcpy(&x, a + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    std::memcpy(&y, b + i * static_cast<std::int64_t>(sizeof y), sizeof y);
    auto const wide = static_cast<double>(arithmetic<real>(y));
    auto const off = static_cast<double>(arithmetic<real>(x)) - wide;
    difference += off * off;
    norm += wide * wide;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// The largest distance from the CPU of every op and type of result; printed when the program ends.
struct printed_distances {
  std::map<std::string, double> largest;

  void add(char const* op, dtype type, double off) {
    auto& most = largest[std::string(op) + " " + name_of(type)];
    if (!(off <= most)) most = off; // a NaN stays
  }
  ~printed_distances() {
    for (auto const& [what, off] : largest) std::printf("distance %-40s %.2e\n", what.c_str(), off);
  }
};
inline printed_distances distances;

/// Repeats on the CPU what the device did, node by node. Also checks that a call stays within its scratch memory, and
/// that it has the launches that the plan says.
template <class entry> struct repeat_on_cpu {
  arena& device;
  std::int64_t scratch; // bytes
  step_parameters const& parameters;
  std::vector<std::byte>& memory; // a mirror of the device's
  std::map<std::string, int>& seen;
  double f32_in_f64 = 1e-5; // row statistics in fp32 that end in an fp64 loss

  static constexpr std::int64_t guard = 512; // bytes behind the scratch memory of a call
  std::int64_t guard_offset = 0, guard_bytes = 0, launches = 0;

  /// Lets the call touch only its operands, its scratch memory and the step parameters.
  void allow_own_bytes(int index, step const& s, bound_operand const* bound) {
#if defined(CONSTRAIN_ON_HOST)
    auto const plan = view_of<entry, cpu>();
    auto const& mine = device_plan_of<entry, target>.steps[index];
    auto* const scratch_memory = device.data() + device.size().count() - scratch;
    std::vector<on_host::byte_range> ranges{{scratch_memory - target::parameter_bytes, target::parameter_bytes},
                                            {scratch_memory + mine.scratch, static_cast<std::size_t>(mine.bytes)}};
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      auto const& b = bound[k];
      // The bytes between the rows of a strided operand are not its own.
      auto const element = size_of(plan.operands[s.first_operand + k].type);
      auto const row = b.row_stride == 0 ? b.count : b.shape_of->features();
      for (std::int64_t i = 0; i * row < b.count; ++i)
        ranges.push_back(
            {static_cast<void const*>(b.data + i * b.row_stride * element), static_cast<std::size_t>(row * element)});
    }
    on_host::allow_only(device.data(), static_cast<std::size_t>(device.size().count()), ranges);
#endif
  }

  void before(int index, step const& s, bound_operand const* bound, loop_state const&) {
    device.read(0, memory.data(), static_cast<std::int64_t>(memory.size()));
    auto const& mine = device_plan_of<entry, target>.steps[index];
    guard_bytes = std::min(guard, scratch - mine.scratch - mine.bytes);
    guard_offset = device.size().count() - scratch + mine.scratch + mine.bytes;
    device.fill(guard_offset, guard_bytes, 0xC3);
#if defined(CONSTRAIN_ON_HOST)
    launches = on_host::all_launches();
#endif
    allow_own_bytes(index, s, bound);
  }
  void check_needs(int index, step const& s) const {
    CAPTURE(std::string(s.op->name));
    std::byte behind[guard];
    device.read(guard_offset, behind, guard_bytes);
    for (std::int64_t i = 0; i < guard_bytes; ++i) REQUIRE(behind[i] == std::byte{0xC3});
#if defined(CONSTRAIN_ON_HOST)
    // A call that the plan merges with the next one has no launches of its own in the plan.
    auto last = index;
    while (device_plan_of<entry, target>.steps[last].more_tensors_follow) ++last;
    CHECK(on_host::all_launches() - launches == device_plan_of<entry, target>.steps[last].launches);
#endif
  }

  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
#if defined(CONSTRAIN_ON_HOST)
    on_host::allow_all(device.data(), static_cast<std::size_t>(device.size().count()));
#endif
    check_needs(index, s);
    auto const plan = view_of<entry, cpu>();
    bound_operand mine[node::maximum_inputs + node::maximum_outputs];
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      mine[k] = bound[k];
      mine[k].data = memory.data() + (bound[k].data - device.data());
    }
    call c{s.attributes, parameters};
    c.adds = detail::current_adds(plan, s, loops);
    c.random_key = s.random_key;
    c.iteration = static_cast<std::uint64_t>(loops.sum(s.iteration));
    c.first_sample = parameters.first_sample;
    if (plan.micro_batches >= 0) c.first_sample += loops.index[plan.micro_batches] * parameters.samples;
    plan.launchers[index](c, mine);
    for (int j = 0; j < s.outputs; ++j) {
      if ((step_rules<entry>[static_cast<std::size_t>(index)] -> workspace >> j & 1u) != 0) continue;
      auto const k = s.inputs + j;
      auto const type = plan.operands[s.first_operand + k].type;
      auto const bytes = static_cast<std::size_t>(bound[k].count * size_of(type));
      std::vector<std::byte> theirs(bytes), ours(bytes);
      auto const row = bound[k].row_stride == 0 ? bound[k].count : bound[k].shape_of->features();
      for (std::int64_t i = 0; i * row < bound[k].count; ++i) {
        auto const from = i * bound[k].row_stride * size_of(type), to = i * row * size_of(type);
        device.read(bound[k].data + from - device.data(), theirs.data() + to, row * size_of(type));
        std::memcpy(ours.data() + to, mine[k].data + from, static_cast<std::size_t>(row * size_of(type)));
      }
      double off = -1;
      if (type == dtype::i32) off = std::memcmp(theirs.data(), ours.data(), bytes) == 0 ? 0 : 1;
      if (type == dtype::u8) off = distance_of_codes(theirs.data(), ours.data(), bound[k].count);
      if (type == dtype::f16) off = distance<float16>(theirs.data(), ours.data(), bound[k].count);
      if (type == dtype::bf16) off = distance<bfloat16>(theirs.data(), ours.data(), bound[k].count);
      if (type == dtype::f32) off = distance<float>(theirs.data(), ours.data(), bound[k].count);
      if (type == dtype::f64) off = distance<double>(theirs.data(), ours.data(), bound[k].count);
      CAPTURE(index);
      CAPTURE(j);
      CAPTURE(std::string(s.op->name));
      distances.add(s.op->name, type, off);
      REQUIRE(off >= 0);
      std::string const name = s.op->name;
      bool const is_loss = name.find("cross_entropy") != std::string::npos || name == "focal_loss";
      bool const from_narrow = is_loss && type == dtype::f64 && plan.operands[s.first_operand].type != dtype::f64;
      CHECK(off <= (from_narrow ? f32_in_f64 : tolerance(type)));
    }
    ++seen[s.op->name];
  }
};

/// Writes the inputs and labels of a plan: the tokens, and the labels. A second input of one integer per token gets
/// positions in documents, another one a length from 0 to the number of tokens for each sequence.
template <class task> void write_batch(auto& to, auto const& p, token_arrays const& w) {
  auto const write = [&](plan_port const& port, std::vector<std::int32_t> const& values) {
    to.write(port.view.offset, values.data(), port.view.elements * 4);
  };
  write(p.nth(port_kind::input, 0), w.inputs);
  write(p.nth(port_kind::label, 0), w.labels);
  auto const second = p.nth(port_kind::input, 1);
  auto const all = p.nth(port_kind::input, 0).view.elements, tokens = all / task::sequences;
  if (second.view.elements == all) write(second, some_positions(task::sequences, tokens));
  else if (second.view.elements > 0) write(second, some_lengths(second.view.elements, tokens));
}

/// Runs every node of two steps and an evaluation on the device and, on the same bytes, on the CPU; counts the ops.
template <class task, class... policies> void check_nodes(std::map<std::string, int>& seen) {
  using trainer = trainer<task, policies..., device_policy>;
  using entries = typename trainer::entries;
  CAPTURE(trainer::policy_set::name());
  runner<target, false> runner(trainer::memory.peak, entries::scratch);
  auto& arena = runner.arena();
  arena.fill(0, trainer::memory.peak.count(), 0xFF);
  initialize(entries::parameters.view(), 3, arena, 0);
  self alone;
  detail::start_settings({entries::parameters.view(), arena, alone},
                         {.clip_norm = 0.5, .dropout = dropout_if_any<trainer>(0.2)});
  auto const w = tokens_for<trainer>(5);
  double const inverse_label_count = 1.0 / static_cast<double>(w.valid);
  std::vector<std::byte> mirror(static_cast<std::size_t>(entries::buffers_end));
  step_parameters parameters;
  parameters.seed = 11;
  parameters.samples = task::sequences;
  if constexpr (entries::keeps_copies)
    runner.template run<typename entries::casts>(
        parameters, repeat_on_cpu<typename entries::casts>{arena, entries::scratch, parameters, mirror, seen});
  for (int step = 0; step < 2; ++step) {
    auto const& plan = entries::step::value;
    parameters.step = parameters.updates = step;
    write_batch<task>(arena, plan, w);
    op::step_hyperparameters<typename trainer::optimizer, storage<entries::master>> const hyper({}, {step + 1});
    arena.write(plan.hyper.offset, &hyper, sizeof hyper);
    arena.write(plan.inverse_label_count.offset, &inverse_label_count, sizeof inverse_label_count);
    runner.template run<typename entries::step>(
        parameters, repeat_on_cpu<typename entries::step>{arena, entries::scratch, parameters, mirror, seen});
  }
  auto const& plan = entries::evaluate::value;
  write_batch<task>(arena, plan, w);
  runner.template run<typename entries::evaluate>(
      parameters, repeat_on_cpu<typename entries::evaluate>{arena, entries::scratch, parameters, mirror, seen});
}

} // namespace constrain::test
