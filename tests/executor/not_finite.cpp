#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "sentence.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

// A number that is not finite comes out of every call before the gradient norm, one at a time. Where it reaches a
// gradient the update is left out and nothing that lasts changes; where it is absorbed everything stays finite. Checked
// mode names the call.

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 11, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// Spoils one number of one output of the n-th call, then lets checked mode look where it is on.
struct spoiling_hooks {
  ct::operand const* operands;
  int call, output;
  double value;
  ct::checked_hooks* checks = nullptr;
  int calls = 0;
  bool before_norm = true, spoiled = false;

  void before(int index, ct::step const& s, ct::bound_operand const* bound, ct::loop_state const& loops) {
    if (std::string_view(s.op->name) == "gradient_norm_squared") before_norm = false;
    if (checks != nullptr) checks->before(index, s, bound, loops);
  }
  void after(int index, ct::step const& s, ct::bound_operand const* bound, ct::loop_state const& loops) {
    if (calls++ == call && before_norm && output < s.outputs) {
      auto const& o = operands[s.first_operand + s.inputs + output];
      auto const at = bound[s.inputs + output].data + (bound[s.inputs + output].count / 2) * ct::size_of(o.type);
      auto const put = [&](auto x) { std::memcpy(at, &x, sizeof x), spoiled = true; };
      if (o.type == ct::dtype::f32) put(static_cast<float>(value));
      if (o.type == ct::dtype::f64) put(value);
      if (o.type == ct::dtype::f16) put(ct::float16(static_cast<float>(value)));
      if (o.type == ct::dtype::bf16) put(ct::bfloat16(static_cast<float>(value)));
    }
    if (checks != nullptr) checks->after(index, s, bound, loops);
  }
};

template <class... list> class job {
  using policies = ct::policies<list...>;
  using entries = ct::entries<task, policies>;
  static constexpr auto const& plan = entries::step::value;
  static constexpr auto const& program = entries::step_program::final;
  static constexpr auto values = ct::make_checked_table<program.values.count>(program);

public:
  static constexpr int maximum_outputs = ct::node::maximum_outputs;

  struct outcome {
    bool spoiled = false, skipped = false, unchanged = false, finite = true;
    std::string said{};
  };

  /// The second step of a run, spoiled.
  static outcome run(int call, int output, double value, bool checked) {
    ct::host_arena arena(entries::memory.peak);
    arena.fill(0, arena.size().count(), 0);
    ct::initialize(entries::parameters.view(), 1, arena, 0);
    double const inverse_label_count = 1.0 / static_cast<double>(plan.nth(ct::port_kind::label, 0).view.elements);
    arena.write(plan.inverse_label_count.offset, &inverse_label_count, sizeof inverse_label_count);
    ct::step_parameters parameters;
    parameters.samples = 2;
    if constexpr (entries::keeps_copies)
      ct::execute(ct::view_of<typename entries::casts, ct::cpu>(), arena.data(), parameters, ct::no_hooks());
    auto const view = ct::view_of<typename entries::step, ct::cpu>();
    outcome o;
    spoiling_hooks hooks{plan.operands, -1, output, value};
    std::vector<std::byte> before;
    for (int step = 0; step < 2; ++step) {
      parameters.step = parameters.updates = step;
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(plan.nth(ct::port_kind::input, 0).view.elements));
      for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>((i * 7 + 3) % 11);
      arena.write(plan.nth(ct::port_kind::input, 0).view.offset, tokens.data(),
                  plan.nth(ct::port_kind::input, 0).view.elements * 4);
      arena.write(plan.nth(ct::port_kind::label, 0).view.offset, tokens.data(),
                  plan.nth(ct::port_kind::label, 0).view.elements * 4);
      ct::op::step_hyperparameters<typename policies::optimizer, ct::storage<entries::master>> const hyper({},
                                                                                                           {step + 1});
      arena.write(plan.hyper.offset, &hyper, sizeof hyper);
      hooks.calls = 0, hooks.before_norm = true, hooks.spoiled = false;
      if (step == 1) {
        hooks.call = call;
        before.assign(arena.data(), arena.data() + entries::step::where.persistent_end);
      }
      ct::checked_hooks checks(arena, view.operands, values.values);
      for (auto const& host : {plan.nth(ct::port_kind::input, 0).view, plan.nth(ct::port_kind::label, 0).view,
                               plan.hyper, plan.inverse_label_count})
        checks.wrote(host);
      if (checked && step == 1) hooks.checks = &checks;
      o.said = ct::test::sentence([&] { ct::execute(view, arena.data(), parameters, hooks); });
    }
    o.spoiled = hooks.spoiled;
    o.unchanged = std::memcmp(before.data(), arena.data(), before.size()) == 0;
    double norm = 0;
    float narrow = 0;
    if (plan.result("clip_coefficient").type == ct::dtype::f64)
      arena.read(plan.result("clip_coefficient").offset, &norm, 8);
    else arena.read(plan.result("clip_coefficient").offset, &narrow, 4), norm = static_cast<double>(narrow);
    o.skipped = !ct::math::finite(norm);
    auto const look = [&](ct::tensor_info const& info) {
      for (std::int64_t k = 0; k < info.elements(); ++k) {
        float x = 0;
        arena.read(info.offset + 4 * k, &x, 4);
        o.finite = o.finite && ct::math::finite(x);
      }
    };
    for (int i = 0; i < entries::parameters.size; ++i) look(entries::parameters.parameters[i]);
    for (int i = 0; i < entries::parameters.states_size; ++i) look(entries::parameters.states[i]);
    return o;
  }

  /// Spoils every real output of every call before the norm.
  static void check() {
    int skipped = 0, absorbed = 0, named = 0;
    for (double const value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()})
      for (int call = 0, any = 1; any != 0; ++call) {
        any = 0;
        for (int output = 0; output < maximum_outputs; ++output) {
          CAPTURE(value);
          CAPTURE(call);
          CAPTURE(output);
          auto const o = run(call, output, value, false);
          if (!o.spoiled) continue;
          ++any;
          REQUIRE(o.said.empty());
          REQUIRE(o.finite);
          REQUIRE(o.skipped == o.unchanged); // an update that is made changes something
          (o.skipped ? skipped : absorbed) += 1;
          if (output > 0) continue;
          auto const said = run(call, output, value, true).said;
          CAPTURE(said);
          REQUIRE(said.find("writes a non-finite value") != std::string::npos);
          ++named;
        }
      }
    MESSAGE(skipped << " reached a gradient, " << absorbed << " were absorbed, " << named << " named in checked mode");
    CHECK(skipped > 50);
    CHECK(skipped > 4 * absorbed);
  }
};

} // namespace

TEST_CASE("not finite: at every call, fp32") { job<>::check(); }
TEST_CASE("not finite: at every call, bf16 with activation checkpointing") {
  job<ct::precision::bf16, ct::checkpoint::every<1>>::check();
}
TEST_CASE("not finite: at every call, fp16") { job<ct::precision::fp16>::check(); }
TEST_CASE("not finite: at every call, reference attention, nothing fused, two micro-batches") {
  job<ct::attention::reference, ct::fusion::none, ct::accumulate<2>>::check();
}
