#pragma once

#include "constrain/pass/cost.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/training_state.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The facts about a trainer that a run's output shows. The functions that write the output take these facts instead of
/// the trainer, so that these functions are compiled once for all trainers.
struct trainer_facts {
  std::string policies;                          // names of the policies
  std::span<parameter_info const> parameters;    // the model's parameters
  std::int64_t parameter_count;                  // elements of all parameters
  std::int64_t micro_batches, sequences, tokens; // micro-batches per step on one rank, sequences per micro-batch, and
                                                 // tokens per sequence
  std::int64_t batch_tokens;                     // tokens of one step on one rank
  int ranks, data_ranks;                         // number of ranks, and of ranks (or tensor groups) with different data
  bool counts_correct;                           // whether evaluation counts correct predictions
  int cuda_capability;                           // lowest compute capability, times ten (`slot_of::device`); 0 on a CPU
  std::string launching;                         // name of the launch policy
  memory_plan const& memory;                     // the trainer's memory plan
  training_state const& state;                   // the trainer's state
};

/// The facts about `t`. Their `state` refers to the training state of `t`, so `t` must outlive them.
template <class trainer> [[gnu::noinline, gnu::cold]] trainer_facts facts_of(trainer const& t) {
  using policies = typename trainer::policy_set;
  constexpr auto const& parameters = trainer::entries::parameters;
  constexpr auto device = policies::device::value;
  return {.policies = policies::name(),
          .parameters = {parameters.parameters, static_cast<std::size_t>(parameters.size)},
          .parameter_count = trainer::parameter_count,
          .micro_batches = trainer::micro_batches,
          .sequences = trainer::task::sequences,
          .tokens = trainer::task::tokens,
          .batch_tokens = trainer::batch_tokens,
          .ranks = t.ranks(),
          .data_ranks = t.data_ranks(),
          .counts_correct = trainer::entries::counts_correct,
          .cuda_capability = device.is_cuda ? device.capability : 0,
          .launching = policy_name<typename policies::launching>(),
          .memory = trainer::memory,
          .state = t.state()};
}

} // namespace constrain::detail
