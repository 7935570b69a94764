#include <constrain/constrain.hpp>
#include <constrain/layer/repeat.hpp>
#include <constrain/op/add/add.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/program/print.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr builder written(int iterations) {
  builder b;
  b.real = dtype::f64;
  ref const input{b.new_value({dtype::f64, shape(2, 4)}, role::input, 0), at::current};
  value const x{b, input};
  auto const y = repeat("block", iterations, x, [](value y) { return y + linear("up", y, 4); });
  linear("head", y, 3, {.bias = false});
  return b;
}

} // namespace

TEST_CASE("a program as text") {
  CHECK(print(written(3).program) == "%1@initial f64 [2, 4] = copy(%0)\n"
                                     "loop block 3\n"
                                     "  %4 f64 [2, 4] = linear(%1@current, block.up.weight, block.up.bias)\n"
                                     "  %5 f64 [2, 4] = add(%1@current, %4)\n"
                                     "  %1@next f64 [2, 4] = copy(%5)\n"
                                     "%7 f64 [2, 3] = linear(%1@final, head.weight)\n");
  CHECK(print(program{}) == "");
}

TEST_CASE("depth does not lengthen the text") {
  auto text = print(written(3).program);
  text.replace(text.find("loop block 3"), 12, "loop block 300");
  CHECK(print(written(300).program) == text);
}

TEST_CASE("print: loops that do not nest") {
  program p;
  p.end_loop();
  p.end_loop();
  CHECK(print(p) == "end of no loop\nend of no loop\n");
  auto open = written(3).program;
  open.nodes.count = 3; // the loop has no end
  CHECK(print(open) == "%1@initial f64 [2, 4] = copy(%0)\n"
                       "loop block 3\n"
                       "  %4 f64 [2, 4] = linear(%1@current, block.up.weight, block.up.bias)\n");
}

TEST_CASE("print: a loop that skips iterations without a valid label has at most so many") {
  auto p = written(3).program;
  p.axes[0].rows.per_iteration = 16;
  CHECK(print(p).find("loop block at most 3\n") != std::string::npos);
}

TEST_CASE("print: a working copy and its rounding error have different names") {
  using pure = entries<task<gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 16, .context = 4}, causal_lm,
                            micro_batch{.sequences = 1}>,
                       policies<precision::pure_bf16, optimizer::states_in<dtype::bf16, optimizer::adamw>>>;
  auto const text = print(pure::step_program::final);
  CHECK(text.find("up.weight.rounding_error f32 [32, 8] = rounding_error(block.mlp.up.weight.copy)") !=
        std::string::npos);
}

TEST_CASE("print: gradients, compute copies and optimizer states are named after their parameter") {
  using bf16 = entries<task<gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 16, .context = 4}, causal_lm,
                            micro_batch{.sequences = 1}>,
                       policies<precision::bf16>>;
  auto const text = print(bf16::step_program::final);
  for (auto const* name : {"block.mlp.up.weight.gradient", "block.mlp.up.weight.compute_copy",
                           "block.mlp.up.weight.exp_avg ", "block.mlp.up.weight.exp_avg_sq "})
    CHECK_MESSAGE(text.find(name) != std::string::npos, name);
  CHECK(text.find(".state") == std::string::npos);
}
