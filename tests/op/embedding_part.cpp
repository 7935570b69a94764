#include "check_gradients.hpp"
#include "op/call_kernel.hpp"
#include "op/tensor_group.hpp"

#include <constrain/op/embedding_part/cpu.hpp>

#include <mutex>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::embedding_part;
using gradient_rule = ct::op::embedding_part_gradient;
static_assert(rule::infer(types({f32(shape(4, 12)), i32(shape(2, 5))})).outputs[0] == f32(shape(2, 5, 12)));
static_assert(refuses<ct::op::too_many_dimensions>(rule::infer(types({f32(shape(4, 12)), i32(shape(2, 3, 4, 5))})), 4,
                                                   5));
static_assert(gradient_rule::infer(types({f32(shape(2, 5, 12)), i32(shape(2, 5))}), {.rows = 4}).outputs[0] ==
              f32(shape(4, 12)));
static_assert(ct::info_of<gradient_rule>.accumulating == 1 && ct::info_of<rule>.has_gradient);

// One rank with all rows; several are tested below.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "table", shape(7, 6), ct::role::embedding, {.stddev = 0.5});
    auto const twice = ct::tanh(ct::emit<rule>({table, tokens})) + ct::emit<rule>({table, tokens});
    return ct::linear("head", twice + ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("embedding_part: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("embedding_part: the ranks' parts add up to the embedding", real, float, double) {
  constexpr int ranks = 3, rows = 4, width = 5; // 11 tokens: the last row of the last rank is unused
  auto const table = array<real>::random(shape(11, width), 1), dy = array<real>::random(shape(2, 9, width), 2);
  auto const tokens = array<std::int32_t>::integers(shape(2, 9), 3, 11);
  array<real> y(shape(2, 9, width)), dtable(shape(11, width));
  call_kernel<ct::op::embedding>(plain, table.in(), tokens.in(), y.out());
  call_kernel<ct::op::embedding_gradient>(plain, dy.in(), tokens.in(), dtable.out());
  std::vector<real> sum(y.values().size());
  std::mutex together;
  tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
    ct::call c{no_attributes, parameters};
    auto const first = static_cast<std::size_t>(parameters.tensor->rank() * rows * width);
    std::vector<real> mine(table.values().begin() + static_cast<std::ptrdiff_t>(first), table.values().end());
    mine.resize(rows * width);
    array<real> const part(shape(rows, width), mine);
    array<real> own(shape(2, 9, width)), down(shape(rows, width));
    call_kernel<rule>(c, part.in(), tokens.in(), own.out());
    call_kernel<gradient_rule>(c, dy.in(), tokens.in(), down.out());
    c.adds = 1;
    call_kernel<gradient_rule>(c, dy.in(), tokens.in(), down.out());
    std::lock_guard const lock(together);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    for (std::size_t i = 0; i < rows * width; ++i) {
      if (first + i < dtable.values().size()) CHECK(down[i] == doctest::Approx(2 * dtable[first + i]).epsilon(1e-6));
      else CHECK(down[i] == 0);
    }
  });
  CHECK(sum == y.values());
}
