#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

// How ranks store each value of a step's program with AdamW. The table below is stored_layout's, written down once more
// and read value by value.

namespace {

enum class kind { parameter, copied_parameter, copy, gradient, state, other };
constexpr int kinds = 6;

constexpr auto R = layout::replicated;
constexpr auto F = layout::flat;
constexpr layout table[3][kinds] = {
    // parameter, with a copy, the copy, gradient, state, other
    {R, F, R, F, F, R}, // stage 1
    {R, F, R, F, F, R}, // stage 2
    {F, F, F, F, F, R}, // stage 3
};

/// The parameters of the tagger that are cast: its matrices and its embedding, and no bias and no norm.
constexpr bool is_matrix(program const& p, int v) { return p.values[v].shape.rank == 2; }

constexpr kind kind_of(program const& p, int v, bool mixed) {
  switch (p.values[v].role) {
  case role::weight:
  case role::embedding:
  case role::head: return mixed && is_matrix(p, v) ? kind::copied_parameter : kind::parameter;
  case role::bias:
  case role::norm: return kind::parameter;
  case role::compute_copy: return kind::copy;
  case role::gradient: return kind::gradient;
  case role::state: return kind::state;
  default: return kind::other;
  }
}

constexpr auto fp32 = updated(built<tagger_task>(), 2);
constexpr auto bf16 = updated(built<tagger_task>(), 2, dtype::bf16);
constexpr auto averaged = updated<optimizer::averaged<optimizer::adamw>>(built<tagger_task>(), 1, dtype::bf16);

constexpr layout stored(program const& p, int v, int stage, int shards) {
  return stored_layout(p, v, {.distributed = true, .stage = stage, .shards = shards});
}

/// How many values of each kind the program has.
struct counts {
  int of[kinds] = {};
  constexpr int operator[](kind k) const { return of[static_cast<int>(k)]; }
};
constexpr counts count(program const& p, bool mixed) {
  counts c;
  for (int v = 0; v < p.values.size(); ++v) ++c.of[static_cast<int>(kind_of(p, v, mixed))];
  return c;
}

// The tagger: an embedding, four linear layers of which three have a bias, and a norm of two parameters.
constexpr int matrices = 5, vectors = 5, parameters = matrices + vectors;
constexpr auto in_fp32 = count(fp32, false), in_bf16 = count(bf16, true);
static_assert(in_fp32[kind::parameter] == parameters && in_fp32[kind::copied_parameter] == 0);
static_assert(in_fp32[kind::copy] == 0 && in_fp32[kind::gradient] == parameters);
static_assert(in_fp32[kind::state] == 2 * parameters && in_fp32[kind::other] > 0);
static_assert(in_bf16[kind::parameter] == vectors && in_bf16[kind::copied_parameter] == matrices);
static_assert(in_bf16[kind::copy] == matrices && in_bf16[kind::gradient] == parameters);
static_assert(in_bf16[kind::state] == 2 * parameters && in_bf16[kind::other] > 0);

/// How many values are stored as the table says, and in the program that ranks run as `stored_layout` says.
constexpr int as_in_table(program const& p, bool mixed, int stage, int shards) {
  auto const ranks = partition(p, true, shards, stage);
  int found = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const expected = shards == 1 ? R : table[stage - 1][static_cast<int>(kind_of(p, v, mixed))];
    found += stored(p, v, stage, shards) == expected && ranks.values[v].layout == expected ? 1 : 0;
  }
  return found;
}
constexpr bool all_as_in_table(program const& p, bool mixed) {
  bool all = true;
  for (int shards : {1, 2, 3})
    for (int stage : {1, 2, 3}) all = all && as_in_table(p, mixed, stage, shards) == p.values.size();
  return all;
}
static_assert(all_as_in_table(fp32, false));
static_assert(all_as_in_table(bf16, true));
static_assert(!all_as_in_table(bf16, false)); // the table tells parameters with a copy from those without

/// Whether every average is stored as its parameter, and how many there are.
constexpr int averages(program const& p, int stage, layout matrix, layout vector) {
  int right = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    if (!p.values[v].is_average) continue;
    int const parameter = p.values[v].belongs_to;
    right += stored(p, v, stage, 2) == (is_matrix(p, parameter) ? matrix : vector) ? 1 : 0;
  }
  return right;
}
static_assert(averages(averaged, 1, F, R) == parameters);
static_assert(averages(averaged, 2, F, R) == parameters);
static_assert(averages(averaged, 3, F, F) == parameters);

} // namespace

// A parameter that is not trained has no gradient: only stage 3 cuts it.
TEST_CASE("a frozen parameter is stored as one that is trained") {
  for (int stage : {1, 2, 3}) {
    auto p = fp32;
    int const v = named(p, "token.weight");
    REQUIRE(v >= 0);
    p.values[v].role = role::frozen;
    CHECK(stored(p, v, stage, 2) == (stage == 3 ? F : R));
  }
}
