#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = updated<optimizer::sgd>(built<chain_task<7>>());
constexpr auto every_1 = recompute(before, 1);
constexpr auto every_3 = recompute(before, 3);

static_assert(same(recompute(before, 0), before)); // 0 keeps everything
static_assert(verify(every_1).ok() && verify(every_3).ok());
static_assert(loops(before) == 2 && loops(every_1) == 2 && loops(every_3) == 5);

// 7 iterations in segments of 3: two whole ones and one of a single iteration.
constexpr auto segment = every_3.axes[every_3.axes.size() - 2], iteration = every_3.axes[every_3.axes.size() - 1];
static_assert(segment.extent == 3 && segment.factor == 3 && iteration.extent == 3 && iteration.factor == 1);
static_assert(segment.original == iteration.original && every_3.axes[segment.original].extent == 7);

// The forward ops of the body run twice, everything else once.
static_assert(runs(before, &info_of<op::elementwise<op::silu>>) == 7);
// x + silu(..): the backward pass needs only silu's input.
static_assert(runs(every_1, &info_of<op::elementwise<op::silu>>) == 7);
static_assert(runs(every_1, &info_of<op::linear>) == 7 + 7 + 1);
static_assert(runs(every_3, &info_of<op::linear_weight_gradient>) == 7 + 1);

// A forward program has nothing to recompute.
constexpr auto forward = remove_training_ops(chain_task<7>::build(entry::predict, dtype::f32));
static_assert(same(recompute(forward, 2), forward));

// Segments are one more nested loop.
constexpr program in_segments(program const& p, int micro_batches) {
  return recompute(updated<optimizer::sgd>(p, micro_batches), 2);
}
constexpr bool is_too_deep(program const& p) {
  return p.failure.reason == why::program_too_large && p.failure.line > 0 && p.failure.expected == 6;
}
static_assert(verify(in_segments(built<nested_task<5>>(), 1)).ok());
static_assert(verify(in_segments(built<nested_task<4>>(), 2)).ok());
static_assert(is_too_deep(in_segments(built<nested_task<6>>(), 1)));
static_assert(is_too_deep(in_segments(built<nested_task<5>>(), 2)));

/// A copy without a gradient.
struct detached {
  static constexpr char const* name = "detached";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward&) {}
};

/// A weight whose gradient is complete before the backward pass of the repeats, or of the first of them
/// (`tail_trains`), although their forward pass reads it.
template <bool tail_trains> struct reads_detached {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const weight = parameter(x, "weight", shape(4, 4), role::weight);
    auto const reads = [weight](value y) { return y + silu(linear("mix", linear(y, emit<detached>({weight})), 4)); };
    x = repeat("outer", 3, x, [&](value y) { return repeat("inner", 2, reads(y), reads); });
    x = repeat("tail", 5, x, [&](value y) { return tail_trains ? y + silu(linear(y, weight)) : reads(y); });
    return linear("head", linear(x, weight), 5);
  }
};

constexpr std::int64_t without_weights(program const& p) {
  auto const at = plan_memory(p);
  return at.end - at.persistent_end;
}

/// A body with much to keep.
template <int iterations> struct deep {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    x = repeat("block", iterations, x,
               [](value x) { return x + linear("down", dropout(silu(linear("up", layer_norm("norm", x), 16))), 4); });
    return linear("head", x, 5);
  }
};
template <int iterations>
using deep_task = task<deep<iterations>{}, causal_lm, micro_batch{.sequences = 8, .tokens = 16}>;

template <int iterations> void check_iterations() {
  auto const keep = updated(built<deep_task<iterations>>());
  auto const reference = simulate(keep, plan_memory(keep));
  REQUIRE(reference.errors.empty());
  for (int every = 1; every <= iterations + 2; ++every) {
    CAPTURE(iterations);
    CAPTURE(every);
    auto const p = recompute(keep, every);
    CHECK(verify(p).ok());
    auto const s = simulate(p, plan_memory(p));
    CHECK(s.errors == std::vector<std::string>{});
    CHECK(s.left == reference.left);
    // The forward pass of the body once more, whatever divides what; up's product is what the backward pass needs.
    CHECK(runs(p, &info_of<op::layer_norm>) == 2 * iterations);
    CHECK(runs(p, &info_of<op::linear_weight_gradient>) == 2 * iterations + 1);
  }
}

} // namespace

TEST_CASE("n iterations in segments of k, whatever k divides") {
  check_iterations<1>(), check_iterations<2>(), check_iterations<3>(), check_iterations<5>(), check_iterations<7>(),
      check_iterations<12>(), check_iterations<16>();
}

TEST_CASE("nested repeats and values from outside") {
  auto const keep = updated(built<tagger_task>(), 3);
  auto const reference = simulate(keep, plan_memory(keep));
  for (int every = 1; every <= 6; ++every) {
    auto const p = recompute(keep, every);
    auto const s = simulate(p, plan_memory(p));
    CHECK(s.errors == std::vector<std::string>{});
    CHECK(s.left == reference.left);
  }
}

template <bool tail_trains> void check_updates_in_backward() {
  using task = constrain::task<reads_detached<tail_trains>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
  auto const keep = update<optimizer::in_backward<optimizer::sgd>>(differentiated(built<task>()), true);
  auto const reference = simulate(keep, plan_memory(keep));
  REQUIRE(reference.errors.empty());
  for (int every = 1; every <= 6; ++every) {
    auto const p = recompute(keep, every);
    auto const s = simulate(p, plan_memory(p));
    CHECK(s.errors == std::vector<std::string>{});
    for (auto const& [v, computed] : s.left) // other values may overwrite a gradient after its update
      if (!p.values[v].ends_with_update) CHECK(computed == reference.left.at(v));
  }
}

TEST_CASE("no clone reads a parameter after its update in the backward pass") {
  check_updates_in_backward<false>(), check_updates_in_backward<true>();
}

/// Reads each gradient into a sum, as a policy's pass can after the backward pass.
struct norm {
  static constexpr char const* name = "norm";
  static constexpr unsigned accumulating = 0b1;
  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f32, {}); }
};

TEST_CASE("a pass that reads the gradients of all iterations finds each at its place") {
  builder out;
  out.program = differentiated(built<chain_task<7>>());
  value_info total;
  total.role = role::result, total.accumulates = true;
  int const v = out.program.add_value(total);
  for_each_gradient(out, [&](value gradient) { out.call<norm>({gradient.where()}, {{v, at::current}}); });
  auto const keep = update<optimizer::in_backward<optimizer::sgd>>(out.program, true);
  REQUIRE(keep.failure.ok());
  for (int every = 2; every <= 4; ++every) {
    auto const p = recompute(keep, every);
    for (int g = 0; g < keep.values.size(); ++g)
      if (keep.values[g].role == role::gradient) CHECK(p.values[g].axes == keep.values[g].axes);
    CHECK(simulate(p, plan_memory(p)).errors == std::vector<std::string>{});
  }
}

/// Where a pass adds a loop over the layers, which reads a tensor of each layer into a sum.
enum class added { before_all, after_forward_loop, reversed_after_all };

constexpr program with_loop(program const& p, added where) {
  auto out = without_nodes(p);
  value_info info;
  info.role = role::result, info.accumulates = true;
  ref const sum{out.program.add_value(info), at::current};
  auto const add_loop = [&](int v) {
    out.open(p.values[v].axes[0], where == added::reversed_after_all);
    out.call<norm>({{v, at::current}}, {sum});
    out.close();
  };
  if (where == added::before_all) add_loop(named(p, "block.up.weight"));
  int activation = -1;
  for (auto const& n : p.nodes) {
    out.program.add_node(n);
    if (calls(n, info_of<op::elementwise<op::silu>>)) activation = n.outputs[0].value;
    if (where == added::after_forward_loop && n.kind == node_kind::end && !n.backward) add_loop(activation);
  }
  if (where == added::reversed_after_all) add_loop(gradient_of(p, "block.up.weight"));
  return out.program;
}

TEST_CASE("loops of a pass are not the loops of the repeat") {
  for (auto where : {added::before_all, added::after_forward_loop, added::reversed_after_all}) {
    auto const keep = update<optimizer::sgd>(with_loop(differentiated(built<chain_task<7>>()), where));
    auto const reference = simulate(keep, plan_memory(keep));
    REQUIRE(reference.errors == std::vector<std::string>{});
    for (int every = 1; every <= 4; ++every) {
      auto const p = recompute(keep, every);
      CHECK(verify(p).ok());
      auto const s = simulate(p, plan_memory(p));
      CHECK(s.errors == std::vector<std::string>{});
      CHECK(s.left == reference.left);
      CHECK(runs(p, &info_of<op::linear>) == 7 + 7 + 1);
    }
  }
}

TEST_CASE("what is computed again is not kept") {
  auto const keep = updated<optimizer::sgd>(built<deep_task<16>>());
  auto const all = without_weights(coalesce(keep));
  auto const four = without_weights(coalesce(recompute(keep, 4)));
  CHECK(four < all / 2);
  CHECK(without_weights(coalesce(recompute(keep, 16))) > four);
}

TEST_CASE("recompute, in full") {
  auto const text = print(recompute(updated<optimizer::sgd>(built<chain_task<3>>()), 2));
  CHECK(text.substr(0, text.find("%26")) ==
        "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
        "%3@initial f32 [2, 3, 4] = copy(%2)\n"
        "loop block.segment 2\n"
        "  %30 f32 [2, 3, 4] = copy(%3@current)\n"
        "  loop block.iteration 2\n"
        "    %5 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
        "    %6 f32 [2, 3, 4] = elementwise(%5)\n"
        "    %7 f32 [2, 3, 4] = add(%3@current, %6)\n"
        "    %3@next f32 [2, 3, 4] = copy(%7)\n"
        "%9 f32 [2, 3, 5] = linear(%3@final, head.weight)\n"
        "%12 f64 [], %13 f32 [6], %14 f64 [6] = cross_entropy(%9, %10, inverse_label_count)\n"
        "%15 f64 [] = copy(%12)\n"
        "%19 f64 [] = constant(%15)\n"
        "%20 f32 [2, 3, 5] = cross_entropy_gradient(%19, %9, %10, %13, inverse_label_count)\n"
        "%21 f32 [2, 3, 4] = linear_input_gradient(%20, head.weight)\n"
        "head.weight.gradient f32 [5, 4] = linear_weight_gradient(%20, %3@final)\n"
        "%22@final f32 [2, 3, 4] = copy(%21)\n"
        "loop block.segment 2 reversed\n"
        "  %31@initial f32 [2, 3, 4] = copy(%30)\n"
        "  loop block.iteration 2\n"
        "    %32 f32 [2, 3, 4] = linear(%31@current, block.up.weight)\n"
        "    %33 f32 [2, 3, 4] = elementwise(%32)\n"
        "    %34 f32 [2, 3, 4] = add(%31@current, %33)\n"
        "    %31@next f32 [2, 3, 4] = copy(%34)\n"
        "  loop block.iteration 2 reversed\n"
        "    %23 f32 [2, 3, 4] = elementwise_gradient(%22@next, %32)\n"
        "    %24 f32 [2, 3, 4] = linear_input_gradient(%23, block.up.weight)\n"
        "    block.up.weight.gradient f32 [4, 4] = linear_weight_gradient(%23, %31@current)\n"
        "    %25 f32 [2, 3, 4] = add(%22@next, %24)\n"
        "    %22@current f32 [2, 3, 4] = copy(%25)\n"
        "token.weight.gradient f32 [5, 4] = embedding_gradient(%22@initial, %0)\n");
}
