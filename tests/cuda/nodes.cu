// Op by op: every node of whole training steps and evaluations runs on the device and, on the same bytes, on the CPU.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// How far a device's result may be from the CPU's on the same inputs, relative to the norm of the tensor.
double tolerance(ct::dtype type) {
  return type == ct::dtype::bf16 ? 4e-3 : type == ct::dtype::f32 ? 1e-5 : type == ct::dtype::f64 ? 1e-10 : 0;
}

template <class real> double distance(std::byte const* a, std::byte const* b, std::int64_t count) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    real x, y;
    std::memcpy(&x, a + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    std::memcpy(&y, b + i * static_cast<std::int64_t>(sizeof y), sizeof y);
    auto const wide = static_cast<double>(ct::arithmetic<real>(y));
    auto const off = static_cast<double>(ct::arithmetic<real>(x)) - wide;
    difference += off * off;
    norm += wide * wide;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// Repeats on the CPU what the device did, node by node.
template <class entry> struct repeat_on_cpu {
  ct::arena const& device;
  ct::run_numbers const& numbers;
  std::vector<std::byte>& memory; // a mirror of the device's
  std::map<std::string, int>& seen;
  double f32_in_f64 = 1e-5;       // row statistics in fp32 that end in an fp64 loss

  void before(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {
    device.read(0, memory.data(), static_cast<std::int64_t>(memory.size()));
  }
  void after(int index, ct::step const& s, ct::bound_operand const* bound, ct::loop_state const& loops) {
    auto const plan = ct::view_of<entry, ct::cpu>();
    ct::bound_operand mine[ct::node::maximum_inputs + ct::node::maximum_outputs];
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      mine[k] = bound[k];
      mine[k].data = memory.data() + (bound[k].data - device.data());
    }
    ct::call c{s.attributes, numbers};
    c.adds = ct::detail::adds_now(plan, s, loops);
    c.random_key = s.random_key;
    c.trip = static_cast<std::uint64_t>(loops.sum(s.trip));
    c.first_sample = numbers.first_sample;
    if (plan.micro_batches >= 0) c.first_sample += loops.index[plan.micro_batches] * numbers.samples;
    plan.launchers[index](c, mine);
    for (int j = 0; j < s.outputs; ++j) {
      if ((s.op->workspace >> j & 1u) != 0) continue;
      auto const k = s.inputs + j;
      auto const type = plan.operands[s.first_operand + k].type;
      std::vector<std::byte> theirs(static_cast<std::size_t>(bound[k].count * ct::size_of(type)));
      device.read(bound[k].data - device.data(), theirs.data(), static_cast<std::int64_t>(theirs.size()));
      double off = -1;
      if (type == ct::dtype::bf16) off = distance<ct::bfloat16>(theirs.data(), mine[k].data, bound[k].count);
      if (type == ct::dtype::f32) off = distance<float>(theirs.data(), mine[k].data, bound[k].count);
      if (type == ct::dtype::f64) off = distance<double>(theirs.data(), mine[k].data, bound[k].count);
      CAPTURE(index);
      CAPTURE(j);
      CAPTURE(std::string(s.op->name));
      REQUIRE(off >= 0);
      bool const from_narrow = std::string(s.op->name) == "cross_entropy" && plan.operands[s.first_operand].type != ct::dtype::f64;
      CHECK(off <= (from_narrow ? f32_in_f64 : tolerance(type)));
    }
    ++seen[s.op->name];
  }
};

std::map<std::string, int> seen;

template <class task, class... policies> void check_nodes() {
  using trainer = ct::trainer<task, policies..., device_policy>;
  using entries = typename trainer::entries;
  CAPTURE(trainer::policy_set::name());
  ct::runner<target, false> runner(trainer::memory.peak);
  auto& arena = runner.arena();
  arena.fill(0, trainer::memory.peak.count() - target::reserve, 0xFF);
  for (int i = 0; i < entries::parameters.size; ++i) ct::initialize(entries::parameters.parameters[i], i, 3, arena);
  auto const w = tokens_for<trainer>(5);
  std::vector<std::byte> mirror(static_cast<std::size_t>(trainer::memory.peak.count() - target::reserve));
  ct::run_numbers numbers;
  numbers.seed = 11;
  numbers.inverse_label_count = 1.0 / static_cast<double>(w.valid);
  numbers.clip_norm = 0.5;
  numbers.dropout = 0.2;
  numbers.samples = task::sequences;
  for (int step = 0; step < 2; ++step) {
    auto const& plan = entries::step::value;
    numbers.step = numbers.updates = step;
    arena.write(plan.tokens.offset, w.inputs.data(), static_cast<std::int64_t>(w.inputs.size() * 4));
    arena.write(plan.labels.offset, w.labels.data(), static_cast<std::int64_t>(w.labels.size() * 4));
    ct::op::update_numbers<typename trainer::optimizer, ct::storage<entries::master>> const hyper({}, {step + 1});
    arena.write(plan.hyper.offset, &hyper, sizeof hyper);
    runner.template run<typename entries::step>(numbers, repeat_on_cpu<typename entries::step>{arena, numbers, mirror, seen});
  }
  auto const& plan = entries::evaluate::value;
  arena.write(plan.tokens.offset, w.inputs.data(), plan.tokens.elements * 4);
  arena.write(plan.labels.offset, w.labels.data(), plan.labels.elements * 4);
  runner.template run<typename entries::evaluate>(numbers, repeat_on_cpu<typename entries::evaluate>{arena, numbers, mirror, seen});
}

} // namespace

TEST_CASE("every node of a GPT, as on the CPU") {
  check_nodes<gpt<2, 2, 24, 67, 17, 3>>();
  check_nodes<gpt<2, 3, 9, 300, 33, 2>, ct::precision::fp64, ct::accumulate<2>>();
  check_nodes<gpt<3, 1, 16, 31, 70, 1>, ct::precision::bf16, ct::accumulate<3>, ct::checkpoint::every<2>>();
  check_nodes<gpt<1, 2, 270, 11, 5, 2>, ct::optimizer::nesterov>();
}

TEST_CASE("every node of a classifier with other ops, as on the CPU") {
  check_nodes<classifier, ct::optimizer::sgd>();
  check_nodes<classifier, ct::precision::bf16, ct::optimizer::momentum>();
  check_nodes<classifier, ct::precision::fp64>();
}

TEST_CASE("no op was left out") {
  for (auto const* name : {"linear", "linear_input_gradient", "linear_weight_gradient", "linear_bias_gradient", "attention",
                           "attention_gradient", "layer_norm", "layer_norm_gradient", "embedding", "embedding_gradient", "positions",
                           "positions_gradient", "elementwise", "elementwise_gradient", "dropout", "cross_entropy",
                           "cross_entropy_gradient", "correct_predictions", "mean", "mean_gradient", "multiply", "add", "copy", "cast",
                           "constant", "square_sum", "clip", "update"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}
