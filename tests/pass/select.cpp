#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto built_program = built<gpt2_task>();
constexpr auto training = built_program;
constexpr auto evaluation = remove_training_ops(built_program);

static_assert(calls(built_program, &info_of<op::dropout>) == 3);
static_assert(same(training, built_program));
static_assert(calls(evaluation, &info_of<op::dropout>) == 0);
static_assert(calls(evaluation) == calls(training) - 3);
static_assert(verify(evaluation).ok());
static_assert(same(remove_training_ops(evaluation), evaluation));

/// Dropout is the last thing: the logits move to what it read.
struct dropped {
  constexpr value operator()(value tokens) const {
    return dropout(dropout(linear("head", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 5)));
  }
};
using dropped_task = task<dropped{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
constexpr auto last = built<dropped_task>();
constexpr auto moved = remove_training_ops(last);
static_assert(moved.result("logits").value != last.result("logits").value);
static_assert(moved.values[moved.result("logits").value].shape == shape(2, 3, 5));

} // namespace

TEST_CASE("select") {
  CHECK(print(remove_training_ops(last)) ==
        "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
        "%5 f32 [2, 3, 5] = linear(%2, head.weight, head.bias)\n"
        "%11 f64 [], %12 f32 [6], %13 f64 [6] = cross_entropy(%5, %9, inverse_label_count)\n"
        "%14 f64 [] = copy(%11)\n");
}
