#include "casts_in_every_run.hpp"
#include "check_gradients.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace constrain;
using test::casts_in_every_run, test::last_pass;

namespace {

/// Throws if a test has said so.
struct failing {
  static constexpr char const* name = "failing";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
bool fails = false;
struct fails_after_the_update {
  using slot = last_pass;
  static constexpr slot value{.runs = true};
  static constexpr auto after = pass_name::updated;
  static constexpr program pass(program const& p, slot const&) {
    builder out;
    out.program = p;
    out.call<failing>({p.result("clip_coefficient")});
    return out.program;
  }
};

/// A policy that changes the parameters after their update.
struct rewrites_weights {
  using slot = last_pass;
  static constexpr slot value{.runs = true};
  static constexpr auto after = pass_name::updated;
  static constexpr program pass(program const& p, slot const&) {
    builder out;
    out.program = p;
    ref const norm_and_scale = p.result("clip_coefficient");
    for (int v = 0; v < p.values.size(); ++v)
      if (is_trainable(p.values[v].role) && p.values[v].shape.rank == 2 && p.values[v].axes.empty()) {
        auto const squared = out.call<op::multiply>({{v, at::current}, {v, at::current}}).outputs[0];
        out.call<op::assign>({squared, norm_and_scale}, {{v, at::current}}, {.to = p.values[v].type});
      }
    return out.program;
  }
};

} // namespace

template <> struct constrain::kernel<failing, cpu> {
  template <class real> static void run(call const&, tensor<real const>, tensor<real>) {
    if (fails) throw std::runtime_error("the kernel fails");
  }
};

namespace {

using small = task<gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 13, .context = 8}, causal_lm,
                   micro_batch{.sequences = 2}>;
template <class... list> using with = trainer<small, list...>;
template <class... list> inline constexpr auto const& step_of = with<list...>::entries::step_program::final;

/// The number of values of role `r` that calls to `op` write.
constexpr int written(program const& p, op_info const& op, role r) {
  int count = 0;
  for (auto const& n : p.nodes)
    for (auto const& output : n.outputs) count += calls(n, op) && p.values[output.value].role == r ? 1 : 0;
  return count;
}
template <class optimizer> inline constexpr auto const& both = info_of<op::update_and_copy<optimizer>>;
constexpr auto const& cast = info_of<op::cast>;

// Tokens, positions, qkv, projection, up and down: the update writes their copies.
static_assert(written(step_of<precision::bf16>, both<optimizer::adamw>, role::kept_copy) == 6);
static_assert(written(step_of<precision::bf16>, cast, role::kept_copy) == 0);
static_assert(info_of<op::update_and_copy<optimizer::adamw>>.gradient == nullptr);
static_assert(written(with<precision::bf16>::entries::evaluate_program::final, cast, role::kept_copy) == 0);
static_assert(written(with<precision::bf16>::entries::casts::final, cast, role::kept_copy) == 6);
// In a loop, and by an update rule, a parameter is updated alone; the copies are cast at the end.
static_assert(written(step_of<precision::bf16, optimizer::in_backward<optimizer::adamw>>, cast, role::kept_copy) == 4);
static_assert(written(step_of<precision::fp16, optimizer::adafactor>, cast, role::kept_copy) == 6);
// A parameter that changes after its update.
static_assert(written(step_of<precision::bf16, rewrites_weights>, cast, role::kept_copy) == 2);
static_assert(written(step_of<precision::bf16, rewrites_weights>, both<optimizer::adamw>, role::kept_copy) == 4);
// A frozen parameter is never cast in a step.
static_assert(written(step_of<precision::bf16, freeze<role::embedding>>, cast, role::kept_copy) == 0);
static_assert(written(step_of<precision::bf16, freeze<role::embedding>>, both<optimizer::adamw>, role::kept_copy) == 4);
// No copies are kept without copies, with averages, and if a pass follows that could change a parameter.
template <class... list> inline constexpr bool keeps = with<list...>::entries::keeps_copies;
static_assert(keeps<precision::bf16> && keeps<precision::fp16> && keeps<precision::bf16, rewrites_weights>);
static_assert(!keeps<> && !keeps<precision::pure_bf16> && !keeps<precision::tf32> && !keeps<precision::fp64>);
static_assert(!keeps<precision::bf16, optimizer::averaged<optimizer::adamw>>);
static_assert(!keeps<precision::bf16, casts_in_every_run>);
// The copies have the same offsets in all entries, after the values that persist without them.
template <class entries> constexpr bool same_offsets() {
  auto const& p = entries::step_program::final;
  for (int v = 0; v < p.values.size(); ++v) {
    if (p.values[v].role != role::kept_copy) continue;
    auto const offset = entries::step::where.buffers[v].offset;
    if (offset < entries::parameters_end || offset >= entries::persistent_end) return false;
    if (entries::casts::where.buffers[v].offset != offset) return false;
  }
  return entries::casts::where.persistent_end == entries::persistent_end;
}
static_assert(same_offsets<with<precision::bf16>::entries>());
static_assert(same_offsets<with<precision::fp16, optimizer::adamw_8bit, accumulate<2>>::entries>());

/// Losses and logits of a trainer whose weights a step, a skipped step, the host and a saved run change.
template <class... list> std::vector<double> results() {
  using trainer = with<list...>;
  auto const w = test::random_batch::draw<trainer>(1);
  test::temporary_directory const directory;
  auto t = std::make_unique<trainer>(typename trainer::hyper{}, run_options{.seed = 3, .checked = true});
  std::vector<double> all;
  auto const add = [&] {
    auto const p = t->predict(std::span(w.inputs).first(16));
    all.insert(all.end(), p.logits.begin(), p.logits.end());
    all.push_back(t->evaluate(std::span(w.inputs).first(16), std::span(w.labels).first(16)).loss);
    for (auto token : t->generate({1, 2}, 3)) all.push_back(token);
  };
  auto const step = [&] { all.push_back(t->step(t->batch(w.inputs, w.labels)).loss); };
  add(), step(), add(), step();
  t->save(directory.path.string());
  for (auto const& p : t->parameters()) { // steps first, then the other entries, read the new values
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    for (auto& x : values) x *= 0.5f;
    p.copy_from(std::span<float const>(values));
    if (p.name == "token.weight") add();
  }
  step(), add();
  t->load(directory.path.string());
  step(), add();
  t->load_pretrained(directory.path.string());
  add();
  return all;
}
template <class... list> void check_results() {
  auto const kept = results<list...>();
  CHECK(kept == results<list..., casts_in_every_run>());
}

} // namespace

TEST_CASE("keep_copies: the results are those of a program that casts in every run") {
  check_results<precision::bf16>();
  check_results<precision::fp16, optimizer::sgd, accumulate<2>>();
  check_results<precision::bf16, optimizer::in_backward<optimizer::lion>, checkpoint::every<1>>();
  check_results<precision::bf16, optimizer::muon<>, freeze<role::embedding>>();
}

TEST_CASE("keep_copies: copies are made anew after a step that throws") {
  using trainer = with<precision::bf16, optimizer::adafactor, fails_after_the_update>;
  auto const w = test::random_batch::draw<trainer>(1);
  trainer t;
  t.step(t.batch(w.inputs, w.labels));
  fails = true;
  CHECK_THROWS(t.step(t.batch(w.inputs, w.labels)));
  fails = false;
  auto const loss = t.evaluate(w.inputs, w.labels).loss;
  auto const p = t.parameters()[0];
  std::vector<float> values(static_cast<std::size_t>(p.size()));
  p.copy_to(std::span(values));
  p.copy_from(std::span<float const>(values));
  CHECK(t.evaluate(w.inputs, w.labels).loss == loss);
}

TEST_CASE("keep_copies: checked mode finds a copy that is not finite, though no batch reads it") {
  using trainer = with<precision::fp16>;
  auto const w = test::random_batch::draw<trainer>(1);
  trainer t({}, {.checked = true});
  auto const set = [&](float x) {
    auto const tokens = t.parameters()[0];
    std::vector<float> values(static_cast<std::size_t>(tokens.size()));
    tokens.copy_to(std::span(values));
    values.back() = x;
    tokens.copy_from(std::span<float const>(values));
  };
  std::vector<std::int32_t> const text(16, 1);
  set(1e5f);
  CHECK(test::sentence([&] { t.predict(text); }).find("(cast) writes a non-finite value") != std::string::npos);
  set(1);
  t.predict(text);
  trainer fast({.learning_rate = 1e5f}, {.checked = true});
  CHECK(test::sentence([&] {
          fast.step(fast.batch(w.inputs, w.labels));
        }).find("(update_and_copy) writes a non-finite") != std::string::npos);
}
