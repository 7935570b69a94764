#include "random_model.hpp"
#include "simulate.hpp"

#include <constrain/pass/slice_views.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

/// y = 2 x, for strided rows.
struct twice {
  static constexpr char const* name = "twice";
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr unsigned strided_outputs = 0b1;
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.emit<twice>({b.gradient()}, {0}); }
};
constexpr value doubled(value x) { return emit<twice>({x}, {}, 0); }

// Three equal parts of one tensor, each doubled, side by side again.
struct parts {
  constexpr value operator()(value tokens) const {
    auto const x = linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 12);
    auto const y = concatenate({doubled(slice(x, 2, 0, 4)), doubled(slice(x, 2, 4, 4)), doubled(slice(x, 2, 8, 4))}, 2);
    return linear("head", y, 5);
  }
};
// The same with an op that takes contiguous operands only.
struct copied_parts {
  constexpr value operator()(value tokens) const {
    auto const x = linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 12);
    auto const y = concatenate({gelu(slice(x, 2, 0, 4)), doubled(slice(x, 2, 4, 4))}, 2);
    return linear("head", y, 5);
  }
};
template <auto model> using task_of = task<model, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
template <auto model>
constexpr program forward = coalesce(dead_code_elimination(remove_training_ops(task_of<model>::build(entry::predict,
                                                                                                     dtype::f32))));
constexpr int slicing(program const& p) { return calls(p, &info_of<op::slice>) + calls(p, &info_of<op::concatenate>); }
constexpr int views(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += info.view ? 1 : 0;
  return count;
}

constexpr auto before = forward<parts{}>, after = slice_views(before);
static_assert(slicing(before) == 4 && views(before) == 0);
static_assert(slicing(after) == 0 && views(after) == 6 && verify(after).ok());
static_assert(plan_memory(after).end < plan_memory(before).end);
static_assert(same(slice_views(after), after));

// gelu does not accept strided rows: its operand and its result are copied, with all values that are joined with it.
constexpr auto copies = slice_views(forward<copied_parts{}>);
static_assert(calls(copies, &info_of<op::slice>) == 1 && calls(copies, &info_of<op::concatenate>) == 1);
static_assert(views(copies) == 1 && verify(copies).ok());

// Slices of what a repeat passes on, and of what it is to pass on.
struct of_the_repeat {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const y = repeat("block", 3, x, [](value x) {
      return concatenate({doubled(slice(x, 2, 2, 2)), doubled(slice(x, 2, 0, 2))}, 2);
    });
    return linear("head", y, 5);
  }
};
// The body reads the value that the repeat starts from, before it reads what it passes on.
struct of_the_start {
  constexpr value operator()(value tokens) const {
    auto const x = linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 4);
    auto const y = repeat("block", 3, reshape(x, shape(2, 6, 2)),
                          [&](value y) { return doubled(reshape(x, shape(2, 6, 2))) + y; });
    return linear("head", reshape(y, shape(2, 3, 4)), 5);
  }
};
// A value that a view of the start of a repeat shares is read after the repeat.
struct around_the_repeat {
  constexpr value operator()(value tokens) const {
    auto const x = linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 4);
    auto const skip = reshape(x, shape(2, 12));
    auto const y = repeat("block", 48, reshape(x, shape(2, 6, 2)), [](value x) { return doubled(doubled(x)); });
    return linear("head", reshape(reshape(y, shape(2, 12)) + skip, shape(2, 3, 4)), 5);
  }
};
// The repeat keeps two instances of what it passes on, not 49.
static_assert(plan_memory(slice_views(forward<around_the_repeat{}>)).end <=
              plan_memory(forward<around_the_repeat{}>).end);

constexpr auto carried = slice_views(forward<of_the_repeat{}>);
static_assert(slicing(carried) == 0 && views(carried) == 4 && verify(carried).ok());

// A stack is the only copy of a program: two iterations compute a half each.
struct half {
  static constexpr char const* name = "half";
  static constexpr inferred infer(operand_types const& in) {
    auto s = in[0].shape;
    s.extent[0] /= 2;
    return inferred::one(in[0].type, s);
  }
};
struct doubled_once {
  constexpr value operator()(value tokens) const {
    return linear("head", doubled(embedding("token", tokens, {.vocabulary = 5, .width = 4})), 5);
  }
};
constexpr program in_halves = rewrite(forward<doubled_once{}>, [](builder& out, node const& n, int) {
  if (!calls(n, info_of<twice>)) {
    out.program.add_node(n);
    return;
  }
  out.open(out.program.add_axis({.name = out.program.names.add("", "halves"), .extent = 2}), false);
  ref const mine = out.call<half>({n.inputs[0]}).outputs[0];
  out.close();
  out.call<op::stack>({mine}, {n.outputs[0]}, {.iterations = 2});
});
constexpr auto of_halves = slice_views(in_halves);
static_assert(verify(in_halves).ok() && calls(in_halves, &info_of<op::stack>) == 1 && slicing(in_halves) == 0);
static_assert(verify(of_halves).ok() && calls(of_halves, &info_of<op::stack>) == 0 && views(of_halves) == 1);

// A view that is mistaken for a different slice: two operands of one concatenation share bytes.
constexpr program planted = [] {
  program p = after;
  int first = -1;
  for (int v = 0; v < p.values.size(); ++v) {
    auto& info = p.values[v];
    if (!info.view || info.view.of.value < v) continue; // slices come after what they slice, operands before
    if (first >= 0) info.view.begin = p.values[first].view.begin;
    first = v;
  }
  return p;
}();
// The joined value is incomplete: the second operand was written over the first.
static_assert(verify(planted).reason == why::read_before_written);

} // namespace

TEST_CASE("views of slices change no number") {
  for (auto const& p : {built<task_of<parts{}>>(), built<task_of<copied_parts{}>>(), built<task_of<of_the_repeat{}>>()})
    for (int micro_batches : {1, 2})
      for (int every : {0, 1, 2}) {
        auto const c = coalesce(recompute(updated(p, micro_batches), every));
        auto const v = slice_views(c), f = in_place(v);
        CHECK(slicing(v) < slicing(c));
        for (auto const* each : {&v, &f}) {
          auto const s = simulate(*each, plan_memory(*each));
          CHECK(s.errors == std::vector<std::string>{});
          CHECK(s.left == simulate(c, plan_memory(c)).left);
        }
      }
}

TEST_CASE("the value that a repeat starts from stays, if the body reads a view of it") {
  static constexpr auto p = built<task_of<of_the_start{}>>();
  for (auto const& c : {forward<of_the_start{}>, coalesce(updated(p, 1)), coalesce(recompute(updated(p, 2), 2))}) {
    auto const v = slice_views(c), f = in_place(v);
    CHECK(calls(v, &info_of<op::reshape>) < calls(c, &info_of<op::reshape>));
    for (auto const* each : {&v, &f}) {
      auto const s = simulate(*each, plan_memory(*each));
      CHECK(s.errors == std::vector<std::string>{});
      CHECK(s.left == simulate(c, plan_memory(c)).left);
    }
  }
}

TEST_CASE("slices of random programs") {
  int viewed = 0, copied = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    auto const p = slice_views(coalesce(updated(random_model(seed).build())));
    viewed += views(p), copied += slicing(p);
    CHECK(verify(p).ok());
  }
  CHECK(viewed > 100);
  CHECK(copied > 100);
}
