#include "random_model.hpp"
#include "simulate.hpp"

#include <constrain/pass/pad_rows.hpp>
#include <constrain/program/location.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

static_assert(padded_features(50257, dtype::bf16) == 50304 && padded_features(513, dtype::f32) == 576);
static_assert(padded_features(67, dtype::bf16) == 72 && padded_features(67, dtype::f32) == 68);
static_assert(padded_features(3, dtype::f64) == 4);

constexpr program shared(program const& p) { return in_place(slice_views(coalesce(p))); }
constexpr program padded(program const& p) { return pad_rows(shared(p)); }

/// The distance of the rows of the first output of the only call of `op`; 0: the rows are contiguous.
constexpr std::int64_t stride_of(program const& p, op_info const& op) {
  for (auto const& n : p.nodes)
    if (calls(n, op)) return locate(p, n.outputs[0]).row_stride;
  return -1;
}
/// The distance of the rows of the logits.
constexpr std::int64_t stride_of_logits(program const& p) {
  for (auto const& n : p.nodes)
    if (calls(n, info_of<op::cross_entropy>)) return locate(p, n.inputs[0]).row_stride;
  return -1;
}

// A head of 67 classes: the logits and their gradient are in the same bytes, and their rows begin at multiples of 16.
struct headed {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 67, .width = 8});
    return linear("head", silu(linear("up", x, 13)), 67);
  }
};
using headed_task = task<headed{}, causal_lm, micro_batch{.sequences = 2, .tokens = 5}>;
constexpr program plain = updated(built<headed_task>());
constexpr program rows = padded(plain);
static_assert(stride_of_logits(shared(plain)) == 0 && stride_of_logits(rows) == 68);
static_assert(stride_of(rows, info_of<op::cross_entropy_gradient>) == 68);
constexpr program fused_rows = padded(fuse(plain, true));
static_assert(stride_of(fused_rows, info_of<op::cross_entropy_and_gradient>) == 68);
static_assert(verify(rows).ok() && verify(fused_rows).ok() && same(pad_rows(rows), rows));
// The values of the hidden layer, of 13 elements, are read by an op that takes no strided rows.
static_assert(stride_of(rows, info_of<op::elementwise<op::silu>>) == 0);
// In a multiple of 16 bytes, nothing changes.
struct aligned {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 68, .width = 8}), 68);
  }
};
using aligned_task = task<aligned{}, causal_lm, micro_batch{.sequences = 2, .tokens = 5}>;
static_assert(same(padded(updated(built<aligned_task>())), shared(updated(built<aligned_task>()))));
// What the host reads is not padded.
constexpr program predicted = dead_code_elimination(headed_task::build(entry::predict, dtype::f32));
static_assert(same(padded(predicted), shared(predicted)));

// A program without room for one more value stays as it is.
constexpr program full = [] {
  auto p = plain;
  while (p.values.size() < program::maximum_values) p.add_value({});
  return p;
}();
static_assert(verify(padded(full)).ok() && stride_of_logits(padded(full)) == 0);

} // namespace

TEST_CASE("padded programs read what they mean") {
  std::vector<program> programs{plain, fuse(plain, true), updated(built<gpt2_task>(), 2, dtype::bf16)};
  for (unsigned seed = 1; seed <= 30; ++seed)
    programs.push_back(fuse(recompute(updated(random_model(seed).build(), 1 + seed % 3), seed % 4), true));
  int strided = 0;
  for (auto const& p : programs) {
    auto const f = padded(p);
    strided += f.values.size() - p.values.size();
    CHECK(verify(f).ok());
    auto const s = simulate(f, plan_memory(f));
    CHECK(s.errors == std::vector<std::string>{});
  }
  CHECK(strided > 10);
}
