#include <constrain/constrain.hpp>
#include <constrain/pass/pipeline.hpp>
#include <doctest/doctest.h>

#include <string>
#include <vector>

// The library's models fit into a program with the policies that add most to it: optimizers with many states, whose
// update needs full tensors, and parameters, gradients and states in shards. Made at run time by the functions that the
// compiler calls, because a constant for each plan would take long to compile.

using namespace constrain;

namespace {

struct updating {
  std::string name;
  program (*update)(program const&, bool recomputes_loops);
};
template <class policy> updating of() { return {policy_name<policy>(), &update<policy>}; }

std::vector<updating> few_states() {
  using namespace constrain::optimizer;
  return {of<adafactor>(), of<averaged<adafactor>>(), of<averaged<muon<adamw>>>()};
}
std::vector<updating> many_states() {
  using namespace constrain::optimizer;
  using with_momentum = adafactor_with_momentum;
  return {of<with_momentum>(), of<averaged<with_momentum>>(), of<averaged<muon<with_momentum>>>()};
}

/// The diagnosis of the step program that `updates` turns into one for two ranks, and of its memory plan.
diagnosis planned(program const& updates, slot_of::parallelism const& parallelism, bool is_cuda) {
  auto const fused = fuse(updates, fusion::all::value);
  auto const sharded = partition(is_cuda ? sum_parts_together(fused) : fused, parallelism);
  return verify(constrain::detail::share_bytes(sharded, is_cuda));
}

void check_shards(program const& updates, std::string const& what) {
  for (slot_of::parallelism const& parallelism :
       {slot_of::parallelism(parallel::zero<1, 2>::value), slot_of::parallelism(parallel::zero<3, 2>::value)})
    for (bool is_cuda : {false, true}) {
      auto const found = planned(updates, parallelism, is_cuda);
      INFO(what << ", stage " << parallelism.stage << (is_cuda ? std::string(", cuda") : std::string()));
      CHECK_MESSAGE(found.ok(), "reason " << static_cast<int>(found.reason) << ", limit " << found.expected);
    }
}

template <class task> void check(std::string const& model, std::vector<updating> const& optimizers) {
  auto const selected = constrain::select_attention(task::build(entry::step, dtype::f32), slot_of::attention{});
  auto const accumulated = accumulate_over(dead_code_elimination(selected), accumulate<2>::value);
  for (slot_of::precision const& precision :
       {slot_of::precision(precision::fp32::value), slot_of::precision(precision::bf16::value),
        slot_of::precision(precision::fp16::value)}) {
    auto const gradients = join_slices(differentiate(mixed_precision(accumulated, precision), precision.loss_scale));
    for (auto const& optimizer : optimizers)
      for (bool recomputes : {false, true}) {
        auto const updates = optimizer.update(gradients, recomputes);
        auto const checkpointed = recomputes ? recompute(updates, checkpoint::sqrt::value) : updates;
        check_shards(checkpointed, model + ", " + optimizer.name + ", compute " + name_of(precision.compute) +
                                       (recomputes ? ", sqrt" : ""));
      }
  }
}

constexpr micro_batch one{.sequences = 1, .tokens = 32};

} // namespace

TEST_CASE("the library's models have plans with optimizers whose states are in shards") {
  using classifier = task<bert{}.with_classes(2), classification, one>;
  using masked = task<bert{}, masked_lm, one>;
  using gpt = task<gpt2{}, causal_lm, one>;
  check<classifier>("bert with classes", few_states());
  check<masked>("bert", few_states());
  for (auto const& optimizers : {few_states(), many_states()}) {
    check<gpt>("gpt2", optimizers);
    check<task<llama{.tied = false, .biases = true}, causal_lm, one>>("llama with biases", optimizers);
    check<task<llama{.tied = false, .head_norms = true}, causal_lm, one>>("llama with head norms", optimizers);
  }
}
