// Every pointer that any call of 200 random small models gets: inside the arena, as aligned as the plan and the
// heuristic of cuBLASLt were promised. The models are made at run time and nothing of them runs: the launchers check.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/run_time_plan.hpp"
#include "cuda/tasks.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using muon = ct::optimizer::muon<ct::optimizer::quantized<ct::optimizer::adamw, ct::optimizer::everything>, 2>;

/// What a model is trained with.
struct recipe {
  ct::dtype master = ct::dtype::f32;
  ct::slot_of::precision precision;
  ct::slot_of::accumulation accumulation;
  ct::slot_of::checkpointing checkpointing;
  bool in_chunks = false; // the head and the loss
  std::function<ct::program(ct::program const&)> update;
};

using model = std::function<ct::value(ct::value)>;

/// The forward program of a model of tokens, as a task writes it.
ct::program forward(model const& f, std::int64_t sequences, std::int64_t tokens, ct::dtype real) {
  ct::builder b;
  b.real = real;
  auto const port = [&](ct::port_kind kind, char const* name, ct::shape const& shape) {
    ct::value const v{b, {b.new_value({ct::dtype::i32, shape}, ct::role::input, 0), ct::at::current}};
    b.program.set_port({kind, {.name = name}, v.where(), 0, kind == ct::port_kind::label});
    return v;
  };
  auto const logits = f(port(ct::port_kind::input, "tokens", ct::shape(sequences, tokens)));
  b.program.set_result("logits", logits.where());
  auto const labels = port(ct::port_kind::label, "labels", logits.shape().without(logits.shape().rank - 1));
  auto const loss = ct::cross_entropy(logits, labels);
  ct::ref const result{b.new_value({loss.type(), loss.shape()}, ct::role::result, 0), ct::at::current};
  b.program.values[result.value].accumulates = true;
  b.program.values[result.value].axes = {};
  b.call<ct::op::copy>({loss.where()}, {result});
  b.program.set_result("loss", result);
  return b.program;
}

/// The program of a step, by the passes of ct::step_passes.
ct::program step_of(ct::program const& built, recipe const& r) {
  auto const selected = select_attention(built, ct::attention::automatic::value);
  auto const accumulated = accumulate_over(dead_code_elimination(selected), r.accumulation);
  auto const cast = mixed_precision(accumulated, r.precision, true);
  auto const differentiated = join_slices(differentiate(cast, r.precision.loss_scale));
  auto const recomputed = recompute(r.update(differentiated), r.checkpointing);
  auto const fusion = r.in_chunks ? ct::fusion::all::value : ct::fusion::automatic::value;
  return ct::detail::share_bytes(ct::sum_parts_together(fuse(recomputed, fusion)), true);
}

/// Checks the address of every operand before its call.
struct check_addresses {
  static constexpr bool merges_calls = true;
  std::byte const *begin = nullptr, *end = nullptr; // of the buffers
  ct::program const* program = nullptr;
  std::int64_t checked = 0, wrong = 0, by_16 = 0, by_less = 0;

  void before(int, ct::step const& s, ct::bound_operand const* bound, ct::loop_state const&) {
    auto const& node = program->nodes[s.source];
    for (int k = 0; k < s.inputs + s.outputs; ++k) {
      auto const& value = program->values[(k < s.inputs ? node.inputs[k] : node.outputs[k - s.inputs]).value];
      auto const address = bound[k].data - begin;
      auto const row = bound[k].shape_of->features() * size_of(value.type);
      bool const whole_rows = row % 16 == 0 && !value.view;
      ++(whole_rows ? by_16 : by_less), ++checked;
      bool const inside = address >= 0 && address + bound[k].count * size_of(value.type) <= end - begin;
      wrong += inside && address % (whole_rows ? 16 : size_of(value.type)) == 0 ? 0 : 1;
    }
  }
  void after(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {}
};

/// Draws models and recipes.
class drawing {
public:
  explicit drawing(unsigned seed) : random_(seed) {}

  std::int64_t in(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random_() % static_cast<unsigned>(to - from + 1));
  }

  recipe any_recipe() {
    ct::slot_of::precision const precisions[] = {ct::precision::fp32::value, ct::precision::fp64::value,
                                                 ct::precision::bf16::value, ct::precision::fp16::value};
    recipe r;
    r.precision = precisions[in(0, 3)];
    r.master = r.precision.master;
    r.accumulation = {.micro_batches = static_cast<int>(in(1, 3))};
    if (auto const every = static_cast<int>(in(0, 2)); every > 0)
      r.checkpointing = {.recomputes = true, .iterations = every};
    r.in_chunks = in(0, 2) == 0;
    switch (in(0, 4)) {
    case 0: r.update = [](ct::program const& p) { return ct::update<ct::optimizer::adamw>(p); }; break;
    case 1: r.update = [](ct::program const& p) { return ct::update<ct::optimizer::momentum>(p); }; break;
    case 2: r.update = [](ct::program const& p) { return ct::update<ct::optimizer::adafactor>(p); }; break;
    case 3: r.update = [](ct::program const& p) { return ct::update<muon>(p); }; break;
    default: r.update = [](ct::program const& p) { return ct::update<ct::optimizer::sgd>(p); };
    }
    return r;
  }
  ct::program any_program(ct::dtype real) {
    auto const layers = static_cast<int>(in(1, 3)), width = static_cast<int>(in(1, 20));
    auto const classes = static_cast<int>(in(2, 70)), inner = static_cast<int>(in(1, 20));
    auto const tokens = static_cast<int>(in(2, 9)), heads = static_cast<int>(in(1, 4));
    if (in(0, 2) != 0)
      return forward(
          ct::gpt2{.layers = layers, .heads = heads, .width = heads * width, .vocabulary = classes, .context = tokens},
          in(1, 3), tokens, real);
    auto const gated = [=](ct::value ids) {
      auto const x = ct::embedding("token", ids, {.vocabulary = 41, .width = width});
      auto const y = ct::repeat("block", layers, x, [&](ct::value z) {
        auto const normed = ct::layer_norm("norm", z);
        auto const gate = ct::silu(ct::linear("gate", normed, inner)) * ct::gelu(ct::linear("up", normed, inner));
        return z + ct::dropout(ct::linear("down", gate, width));
      });
      return ct::linear("head", ct::mean(y + x, ct::axis::tokens), classes);
    };
    return forward(gated, in(1, 3), tokens, real);
  }

private:
  std::mt19937 random_;
};

template <class task, class... policies> void add_kernels(known_kernels& to) {
  using entries = typename ct::trainer<task, policies..., device_policy>::entries;
  to.add<typename entries::step>();
}
template <class precision> void add_kernels_of(known_kernels& to) {
  using ct::optimizer::momentum;
  using ct::optimizer::sgd;
  add_kernels<gpt<1, 2, 20, 31, 13, 3>, precision, ct::fusion::all, ct::accumulate<2>>(to);
  add_kernels<classifier, precision, momentum>(to);
  add_kernels<gpt<1, 1, 4, 7, 3, 1>, precision, sgd>(to);
}
/// The kernels of Adafactor and Muon depend only on the type in which weights are updated.
template <class precision> void add_kernels_of_matrices(known_kernels& to) {
  add_kernels<gpt<1, 2, 4, 7, 3, 1>, precision, ct::optimizer::adafactor>(to);
  add_kernels<gpt<1, 2, 4, 7, 3, 1>, precision, muon>(to);
}

} // namespace

TEST_CASE("200 random small models") {
  known_kernels kernels;
  add_kernels_of<ct::precision::fp32>(kernels);
  add_kernels_of<ct::precision::fp64>(kernels);
  add_kernels_of<ct::precision::bf16>(kernels);
  add_kernels_of<ct::precision::fp16>(kernels);
  add_kernels_of_matrices<ct::precision::fp32>(kernels);
  add_kernels_of_matrices<ct::precision::fp64>(kernels);
  on_host::dry = true;
  std::int64_t by_16 = 0, by_less = 0, unaligned = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    drawing draw(seed);
    auto const r = draw.any_recipe();
    auto const p = std::make_unique<ct::program>(step_of(draw.any_program(r.master), r));
    REQUIRE(p->failure.ok());
    REQUIRE(verify(*p).ok());
    auto const where = std::make_unique<ct::memory_layout>(plan_memory(*p, 0, target::alignment));
    CHECK(has_aligned_buffers(*p, *where, target::alignment));
    // As plans were once made for every device.
    unaligned += has_aligned_buffers(*p, plan_memory(*p, 0, ct::cpu::alignment), target::alignment) ? 0 : 1;
    run_time_plan const plan(*p, *where, kernels);
    CAPTURE(std::string(plan.unknown == nullptr ? "" : plan.unknown));
    REQUIRE(plan.unknown == nullptr);
    check_addresses checks;
    checks.program = p.get();
    auto const launches = on_host::all_launches();
    plan.run(checks);
    CHECK(on_host::all_launches() - launches == plan.planned_launches);
    CHECK(checks.wrong == 0);
    CHECK(checks.checked > 50);
    by_16 += checks.by_16, by_less += checks.by_less;
  }
  on_host::dry = false;
  CHECK(on_host::still_alive() == "");
  CHECK(by_16 > 1000);
  CHECK(by_less > 1000);
  CHECK(unaligned == 200);
  MESSAGE(by_16 << " operands at multiples of 16 bytes, " << by_less << " others");
}
