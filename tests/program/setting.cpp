#include "../pass/programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr int settings(program const& p) {
  int count = 0;
  for (auto const& info : p.values) count += info.role == role::setting ? 1 : 0;
  return count;
}
constexpr value_info const* find(program const& p, std::string_view name) {
  for (auto const& info : p.values)
    if ((info.role == role::setting || info.per_run) && p.text(info.name) == name) return &info;
  return nullptr;
}

constexpr char const* names[] = {"more",       "dropout",          "clip_norm", "inverse_label_count",
                                 "loss_scale", "loss_scale_steps", "",          "bruit\xe9"};

/// Two settings of its own, one of them made in a loop, and the library's of both dropouts.
template <int which> struct noisy {
  constexpr value operator()(value tokens) const {
    auto x = dropout(embedding("token", tokens, {.vocabulary = 5, .width = 4}));
    setting(x, "noise", 0.5), setting(x, "noise", 2);
    x = repeat("block", 2, x, [](value x) {
      setting(x, names[which], 1);
      return dropout(x + silu(x));
    });
    return linear("head", x, 5);
  }
};
template <int which> using noisy_task = task<noisy<which>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr auto forward = built<noisy_task<0>>();
constexpr auto whole = updated(forward, 4);

// One value of a name, a scalar of fp64 outside of all loops, with the first initial value.
static_assert(forward.failure.ok() && settings(forward) == 3 && settings(whole) == 4);
static_assert(find(whole, "noise")->initial.constant == 0.5);
constexpr bool all_are_scalars = [] {
  for (auto const& info : whole.values)
    if ((info.role == role::setting || info.per_run) &&
        (info.type != dtype::f64 || info.shape.rank != 0 || !info.axes.empty()))
      return false;
  return true;
}();
static_assert(all_are_scalars && verify(whole).ok());

// A program has the library's numbers only if an op reads them.
static_assert(find(forward, "dropout") != nullptr && find(forward, "inverse_label_count") != nullptr);
static_assert(find(forward, "clip_norm") == nullptr && find(whole, "clip_norm") != nullptr);
static_assert(find(built<tied_task>(), "dropout") == nullptr);
static_assert(find(noisy_task<0>::build(entry::predict, dtype::f32), "inverse_label_count") == nullptr);

// Only the number of labels belongs to a run: an input, also of all micro-batches together.
static_assert(find(whole, "inverse_label_count")->role == role::input && find(whole, "inverse_label_count")->per_run &&
              !find(whole, "dropout")->per_run && !find(whole, "clip_norm")->per_run && !find(whole, "noise")->per_run);

// The library's names are taken, whether the program has these settings or not.
template <int which>
constexpr bool taken = built<noisy_task<which>>().failure.refusal == refusal_with<refusals::setting_is_taken>();
static_assert(taken<1> && taken<2> && taken<3> && taken<4> && taken<5> && !taken<0>);

static_assert(built<noisy_task<6>>().failure.refusal == refusal_with<refusals::setting_without_a_name>());
static_assert(built<noisy_task<7>>().failure.refusal == refusal_with<refusals::name_is_not_utf8>());
struct of_nothing {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    setting(x, "noise", __builtin_nan(""));
    return x;
  }
};
static_assert(built<task<of_nothing{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>().failure.refusal ==
              refusal_with<refusals::setting_is_not_finite>());

} // namespace

TEST_CASE("the entries of a trainer find the settings at the same places") {
  auto const where = plan_memory(whole);
  auto const evaluation = remove_training_ops(noisy_task<0>::build(entry::evaluate, dtype::f32));
  auto const there = plan_memory(evaluation, where.persistent_end);
  REQUIRE(detail::shares_persistent_values(evaluation, whole));
  for (int v = 0; v < evaluation.values.size(); ++v) {
    auto const& info = evaluation.values[v];
    if (info.role != role::setting) continue;
    auto const* const same = find(whole, evaluation.text(info.name));
    REQUIRE(same != nullptr);
    CHECK(there.buffers[v].offset == where.buffers[static_cast<int>(same - &whole.values[0])].offset);
  }
}
