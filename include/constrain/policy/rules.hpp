#pragma once

#include "constrain/program/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a list of policies says, as numbers: what the rules look at, and what a compiler prints when one is broken.
struct composition {
  int precisions = 0;
  int optimizers = 0;
  int accumulations = 0;
  int checkpointings = 0;
  int parallelisms = 0;
  int unknown = 0;
  int micro_batches = 1;
  int checkpoint_every = 0;
  bool checkpoints = false;
  bool optimizer_has_state = true;
  bool optimizer_has_update = true;
  bool distributed = false;
  int zero_stage = 3;
  int shards = 1;
  bool has_mpi = true;
  int devices = 0;
  int launches = 0;
  bool cuda = false;
  int architecture = 0;
  bool has_cuda = true;
  bool records = false;
  int attentions = 0;
  bool tiled_attention = true;
  bool fuses = true;
  int fusions = 0;

  friend constexpr bool operator==(composition const&, composition const&) = default;
};

// The table of what may stand together: a name, what must hold of a composition `c`, and the sentence for whoever
// breaks it. The static_asserts, the documentation's matrix and the tests' enumeration are all made from it.
#define CONSTRAIN_RULES(rule)                                                                                          \
  rule(known_policies, c.unknown == 0,                                                                                 \
       "trainer: one of the policies is none; write precision::..., an optimizer (a type with `hyper`), "              \
       "accumulate<N> or checkpoint::... after the task")                                                              \
  rule(one_precision, c.precisions <= 1,                                                                               \
       "trainer: two precisions are given; keep one of them, for example precision::fp32")                             \
  rule(one_optimizer, c.optimizers <= 1,                                                                               \
       "trainer: two optimizers are given; keep one of them, for example optimizer::adamw")                            \
  rule(one_accumulation, c.accumulations <= 1,                                                                         \
       "trainer: accumulate<N> is given twice; keep one, with N the micro-batches of one update")                      \
  rule(one_checkpointing, c.checkpointings <= 1,                                                                       \
       "trainer: two checkpoint policies are given; keep checkpoint::none or one checkpoint::every<k>")                \
  rule(one_parallelism, c.parallelisms <= 1,                                                                           \
       "trainer: two parallel policies are given; keep parallel::ddp or parallel::zero<3, ranks>")                     \
  rule(one_fusion, c.fusions <= 1,                                                                                     \
       "trainer: two fusion policies are given; keep fusion::automatic or fusion::none")                               \
  rule(known_stage, c.zero_stage == 3,                                                                                 \
       "parallel::zero<stage, ranks>: stages 1 and 2 are not there; write parallel::zero<3, ranks> or parallel::ddp")  \
  rule(some_shards, c.shards >= 1,                                                                                     \
       "parallel::zero<stage, ranks>: a group has at least one rank; write parallel::zero<3, 2> or parallel::ddp")     \
  rule(mpi_is_there, !c.distributed || c.has_mpi,                                                                      \
       "parallel: processes talk through MPI, which is not linked; install libopenmpi-dev and link constrain::mpi")    \
  rule(one_device, c.devices <= 1,                                                                                     \
       "trainer: two devices are given; keep device::cpu or device::cuda<sm<90>>")                                     \
  rule(one_launch, c.launches <= 1,                                                                                    \
       "trainer: launch::... is given twice; keep launch::eager or launch::graph")                                     \
  rule(one_attention, c.attentions <= 1,                                                                               \
       "trainer: attention::... is given twice; keep attention::flash or attention::reference")                        \
  rule(flash_on_the_cpu, !c.tiled_attention || !c.cuda,                                                                \
       "attention::flash: its kernels are for the CPU so far; write attention::reference on a CUDA device")            \
  rule(fusion_on_the_cpu, !c.fuses || !c.cuda,                                                                         \
       "fusion::...: the fused kernels are for the CPU so far; write fusion::none on a CUDA device")                   \
  rule(cuda_is_there, !c.cuda || c.has_cuda,                                                                           \
       "device::cuda: this file is not compiled by nvcc; name it .cu, link constrain::cuda, or write device::cpu")     \
  rule(known_architecture, !c.cuda || c.architecture >= 80,                                                            \
       "device::cuda<sm<n>>: the kernels need compute capability 8.0 at least; write sm<80>, sm<90> or newer")         \
  rule(graph_on_cuda, !c.records || c.cuda,                                                                            \
       "launch::graph: only a CUDA device records graphs; write device::cuda<sm<90>> beside it, or launch::eager")     \
  rule(cuda_in_one_process, !c.cuda || !c.distributed,                                                                 \
       "parallel: processes train together on CPUs alone so far; write device::cpu, or leave the parallel policy out") \
  rule(some_micro_batches, c.micro_batches >= 1,                                                                       \
       "accumulate<N>: an update needs at least one micro-batch; write accumulate<1> or leave the policy out")         \
  rule(some_trips, !c.checkpoints || c.checkpoint_every >= 1,                                                          \
       "checkpoint::every<k>: k is at least 1; write checkpoint::none to keep all activations")                        \
  rule(optimizer_state, c.optimizer_has_state,                                                                         \
       "optimizer: it has no `template <class real> struct state`; write one, empty where it keeps nothing")           \
  rule(optimizer_update, c.optimizer_has_update,                                                                       \
       "optimizer: it has no `static real update(real weight, real gradient, state<real>&, hyper const&, "             \
       "ct::optimizer_step)` template; write it")

/// One row of the table, for whoever enumerates compositions.
struct policy_rule {
  char const* name;
  bool (*holds)(composition const&);
  char const* sentence;
};

inline constexpr policy_rule policy_rules[] = {
#define CONSTRAIN_ROW(name, condition, sentence) {#name, [](composition const& c) { return condition; }, sentence},
    CONSTRAIN_RULES(CONSTRAIN_ROW)
#undef CONSTRAIN_ROW
};

/// The first broken rule, or null.
constexpr policy_rule const* broken_rule(composition const& c) {
  for (auto const& rule : policy_rules)
    if (!rule.holds(c)) return &rule;
  return nullptr;
}

/// Refuses a composition that breaks a rule, with the rule's sentence and, as the template's argument, its numbers.
template <composition c> struct composition_is_legal {
#define CONSTRAIN_ASSERT(name, condition, sentence) static_assert(condition, sentence);
  CONSTRAIN_RULES(CONSTRAIN_ASSERT)
#undef CONSTRAIN_ASSERT
  static constexpr bool value = true;
};

} // namespace constrain
