#include "pass/simulate.hpp"

#include <constrain/constrain.hpp>
#include <constrain/policy/rule_table.hpp>
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

// The plan of every legal combination of policies, made at run time by the functions that the compiler calls. One
// representative of each policy with parameters; optimizers that wrap others, to depth 2. By default a share of the
// plans, drawn by their number; with CONSTRAIN_EXHAUSTIVE all.

using namespace constrain;
using namespace constrain::test;

namespace {

using small_task = task<gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 12, .context = 4}, causal_lm,
                        micro_batch{.sequences = 2}>;

// Optimizers.

/// The tensors that an optimizer updates as a whole: none, only matrices of layers, or all.
enum class whole { nothing, matrices, tensors };
/// Of which parameters an optimizer stores an average.
enum class averages { nothing, all };

/// An optimizer's update, and what it does not go with, said once more by hand.
struct updating {
  std::string name;
  slot_of::optimizer value;
  program (*update)(program const&, bool recomputes_loops);
  averages of;    // refused without masters
  whole is_taken; // refused where ranks divide it
};
template <class optimizer> updating of(whole is_taken = whole::nothing, averages of = averages::nothing) {
  return {policy_name<optimizer>(), value_of<optimizer>(), &update<optimizer>, of, is_taken};
}

std::vector<updating> optimizers() {
  using namespace constrain::optimizer;
  using in_bf16 = states_in<dtype::bf16, adamw>;
  using all_in_8_bits = quantized<adamw, everything>;
  constexpr auto tensors = whole::tensors, matrices = whole::matrices, nothing = whole::nothing;
  constexpr auto all = averages::all;
  return {of<adamw>(),
          of<adam>(),
          of<sgd>(),
          of<momentum>(),
          of<nesterov>(),
          of<lion>(),
          of<adafactor>(tensors),
          of<adafactor_relative_step>(tensors),
          of<adafactor_with_momentum>(tensors),
          of<in_bf16>(),
          of<by_role<adamw>>(),
          of<averaged<adamw>>(nothing, all),
          of<all_in_8_bits>(tensors),
          of<muon<adamw>>(matrices),
          of<in_backward<adamw>>(),
          of<quantized<in_bf16, everything>>(tensors),
          of<by_role<in_bf16>>(),
          of<averaged<all_in_8_bits>>(tensors, all),
          of<averaged<in_bf16>>(nothing, all),
          of<averaged<by_role<adamw>>>(nothing, all),
          of<averaged<muon<adamw>>>(matrices, all),
          of<averaged<adafactor>>(tensors, all),
          of<muon<all_in_8_bits>>(tensors),
          of<muon<in_bf16>>(matrices),
          of<muon<by_role<adamw>>>(matrices),
          of<muon<adafactor>>(tensors),
          of<in_backward<all_in_8_bits>>(tensors),
          of<in_backward<in_bf16>>(),
          of<in_backward<by_role<adamw>>>(),
          of<in_backward<averaged<adamw>>>(nothing, all),
          of<in_backward<muon<adamw>>>(matrices),
          of<in_backward<adafactor>>(tensors)};
}

// The other slots.

template <class slot, class... policies> std::vector<slot> values(policy_list<policies...>) {
  return {slot(policies::value)...};
}
using parallelisms =
    policy_list<parallel::none, parallel::ddp, parallel::zero<1, 2>, parallel::zero<2, 2>, parallel::zero<3, 2>,
                parallel::tensor<2>, parallel::mesh<parallel::ddp, parallel::tensor<2>>,
                parallel::mesh<parallel::zero<3, 2>, parallel::tensor<2>>>;
using checkpoints = policy_list<checkpoint::none, checkpoint::every<1>, checkpoint::every<2>, checkpoint::sqrt,
                                checkpoint::keep<op::attention>, checkpoint::budget<kibibytes(100)>>;

/// A possible choice of a search: every other value that can be recomputed.
node_set half_of_all(program const& p) {
  if (!p.failure.ok()) return {};
  recomputation_estimate const estimate(p);
  return estimate.nodes(estimate.all() & 0x5555555555555555);
}

// Properties that every plan must have.

std::string text_of(program const& p, int value) { return std::string(p.text(p.values[value].name)); }

/// No two buffers that exist at the same time share bytes, unless their values do; the last buffer ends at the end.
std::string check_buffers(program const& p, memory_layout const& at) {
  std::int64_t end = at.persistent_end;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& mine = at.buffers[v];
    if (mine.offset < 0 || root_of(p, {v, at::current}).value != v) continue;
    if (mine.offset + mine.size > at.end + cpu::alignment) return "a buffer ends behind the program's memory";
    end = std::max(end, mine.offset + mine.size);
    for (int other = 0; other < v; ++other) {
      auto const& theirs = at.buffers[other];
      if (theirs.offset < 0 || root_of(p, {other, at::current}).value != other) continue;
      bool const together = mine.born <= theirs.dies && theirs.born <= mine.dies;
      bool const apart = theirs.offset + theirs.size <= mine.offset || mine.offset + mine.size <= theirs.offset;
      if (together && !apart) return "two buffers that exist at the same time overlap";
    }
  }
  if (end < at.end || end > at.end + cpu::alignment) return "the program's memory does not end with its last buffer";
  std::int64_t persistent = 0;
  for (int v = 0; v < p.values.size(); ++v)
    if (is_persistent(p.values[v].role)) persistent += (at.buffers[v].size + 63) / 64 * 64;
  if (persistent != at.persistent_end) return "what persists has other bytes than its buffers";
  auto const m = memory_of(p, at, 0);
  auto const parts = m.weights + m.master_weights + m.gradients + m.optimizer_state + m.activations + m.workspace +
                     m.communication - m.shared;
  if (m.activations < bytes(0) || m.shared < bytes(0)) return "a part of the memory is negative";
  return parts == bytes(at.end) ? "" : "the parts of the memory do not add up to its bytes";
}

/// Every trained parameter is written once, no frozen one, and the states of a parameter have names of their own.
std::string check_updates(program const& p) {
  std::vector<int> written(static_cast<std::size_t>(p.values.size()));
  for (auto const& n : p.nodes)
    for (auto const& output : n.outputs) ++written[static_cast<std::size_t>(output.value)];
  std::set<std::pair<int, std::string>> names;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    int const times = written[static_cast<std::size_t>(v)];
    if (is_parameter(info.role) && times != (is_trainable(info.role) ? 1 : 0))
      return text_of(p, v) + " is written " + std::to_string(times) + " times";
    if (info.role != role::state) continue;
    if (times != 1)
      return "a state of " + text_of(p, info.belongs_to) + " is written " + std::to_string(times) + " times";
    if (!names.emplace(info.belongs_to, text_of(p, v)).second)
      return text_of(p, info.belongs_to) + " names a state twice";
  }
  return "";
}

// The sweep.

/// A program that is made when it is first needed.
class lazy {
public:
  explicit lazy(std::function<program()> make) : make_(std::move(make)) {}
  program const& get() const {
    if (!made_) made_.reset(new program(make_())); // not copied: a program is large
    return *made_;
  }

private:
  std::function<program()> make_;
  mutable std::unique_ptr<program const> made_;
};

/// Counts of a sweep.
struct counts {
  long legal = 0, illegal = 0, refused = 0, planned = 0, simulated = 0, too_large = 0;
};

class sweep {
public:
  explicit sweep(unsigned share) : share_(share) {}

  counts run() {
    for (auto const& f : values<slot_of::freezing>(slot_of::freezing::examples{})) {
      static_cast<slot_of::freezing&>(c_) = f;
      lazy const built(
          [&] { return constrain::detail::freezes_by_role::pass(small_task::build(entry::step, dtype::f32), f); });
      lazy const wide(
          [&] { return constrain::detail::freezes_by_role::pass(small_task::build(entry::step, dtype::f64), f); });
      for (auto const& a : values<slot_of::attention>(slot_of::attention::examples{})) {
        static_cast<slot_of::attention&>(c_) = a;
        for (bool is_wide : {false, true}) {
          auto const& from = is_wide ? wide : built;
          lazy const selected([&] { return dead_code_elimination(constrain::select_attention(from.get(), a)); });
          for (int ranks : {1, 2}) divided(selected, ranks, is_wide);
        }
      }
    }
    return counts_;
  }

private:
  void divided(lazy const& selected, int ranks, bool is_wide) {
    lazy const one_rank([&] { return ranks == 1 ? selected.get() : divide(selected.get(), ranks); });
    for (auto const& a : values<slot_of::accumulation>(slot_of::accumulation::examples{})) {
      static_cast<slot_of::accumulation&>(c_) = a;
      lazy const accumulated([&] { return constrain::accumulate_over(one_rank.get(), a); });
      for (auto const& p : values<slot_of::precision>(slot_of::precision::examples{})) {
        static_cast<slot_of::precision&>(c_) = p;
        if ((p.master == dtype::f64) != is_wide) continue;
        lazy const gradients(
            [&] { return join_slices(differentiate(constrain::mixed_precision(accumulated.get(), p), p.loss_scale)); });
        for (auto const& o : optimizers_) updated(gradients, o, ranks);
      }
    }
  }

  void updated(lazy const& gradients, updating const& o, int ranks) {
    static_cast<slot_of::optimizer&>(c_) = o.value;
    name_ = o.name;
    lazy const without_recomputed_loops([&] { return o.update(gradients.get(), false); });
    lazy const with_recomputed_loops([&] { return o.update(gradients.get(), true); });
    for (auto const& k : values<slot_of::checkpointing>(checkpoints{})) {
      static_cast<slot_of::checkpointing&>(c_) = k;
      lazy const& updates = k.recomputes ? with_recomputed_loops : without_recomputed_loops;
      lazy const recomputed([&] { return constrain::recompute(updates.get(), k, half_of_all(updates.get())); });
      for (auto const& f : values<slot_of::fusion>(slot_of::fusion::examples{})) {
        static_cast<slot_of::fusion&>(c_) = f;
        lazy const fused([&] {
          auto const fewer = constrain::fuse(recomputed.get(), f);
          return static_cast<slot_of::precision const&>(c_).tf32 ? round_operands(fewer) : fewer;
        });
        for (auto const& p : values<slot_of::parallelism>(parallelisms{})) {
          if (p.tensor != ranks) continue;
          static_cast<slot_of::parallelism&>(c_) = p;
          static_cast<slot_of::parallelism&>(c_).has_mpi = true;
          one(fused, o);
        }
      }
    }
  }

  /// One combination: it breaks a rule, or its plan is checked, if it is drawn.
  void one(lazy const& fused, updating const& o) {
    if (broken_rule(c_) != nullptr) return void(++counts_.illegal);
    auto const& precision = static_cast<slot_of::precision const&>(c_);
    auto const& parallelism = static_cast<slot_of::parallelism const&>(c_);
    auto const& frozen = static_cast<slot_of::freezing const&>(c_);
    bool const reads_parts =
        parallelism.tensor > 1 && (frozen.weight ? o.is_taken == whole::tensors : o.is_taken != whole::nothing);
    bool const averages_matrices =
        o.of == averages::all ? !frozen.weight : o.of != averages::nothing && !frozen.embedding;
    bool const is_refused = reads_parts || (!precision.masters && averages_matrices);
    if (is_refused) ++counts_.refused;
    else ++counts_.legal;
    auto const number = static_cast<std::uint64_t>(counts_.legal + counts_.refused);
    if (test::detail::mix(number, 17) % share_ != 0) return;
    auto const final = constrain::detail::share_bytes(constrain::partition(fused.get(), parallelism));
    INFO(describe());
    if (is_refused) {
      if (final.failure.reason != why::refused) FAIL_CHECK("a combination that should be refused is not");
      return;
    }
    ++counts_.planned;
    auto failure = verify(final);
    if (failure.reason == why::program_too_large) {
      ++counts_.too_large; // for the compiler: the trainer's error says so
      return;
    }
    if (!failure.ok()) {
      FAIL_CHECK("refused, reason " << static_cast<int>(failure.reason));
      return;
    }
    auto const where = plan_memory(final);
    for (auto const& wrong : {check_buffers(final, where), check_updates(final)})
      if (!wrong.empty()) FAIL_CHECK(wrong);
    if (number % 16 != 0) return;
    ++counts_.simulated;
    for (auto const& wrong : simulate(final, where).errors) FAIL_CHECK(wrong);
  }

  std::string describe() const {
    auto const& precision = static_cast<slot_of::precision const&>(c_);
    auto const& parallelism = static_cast<slot_of::parallelism const&>(c_);
    auto const& checkpointing = static_cast<slot_of::checkpointing const&>(c_);
    return name_ + ", compute " + name_of(precision.compute) + (precision.masters ? "" : " without masters") +
           (precision.tf32 ? ", tf32" : "") + ", " +
           std::to_string(static_cast<slot_of::accumulation const&>(c_).micro_batches) + " micro-batches, every " +
           std::to_string(checkpointing.iterations) + (checkpointing.square_root ? ", sqrt" : "") +
           (checkpointing.by_operation ? ", keeps attention"
            : checkpointing.searches() ? ", half"
                                       : "") +
           ", stage " + std::to_string(parallelism.stage) + ", shards " + std::to_string(parallelism.shards) +
           ", tensor " + std::to_string(parallelism.tensor) + (parallelism.distributed ? ", distributed" : "") +
           (static_cast<slot_of::fusion const&>(c_).fuses ? ", fuses" : "") +
           (static_cast<slot_of::freezing const&>(c_).embedding ? ", frozen embeddings" : "") +
           (static_cast<slot_of::freezing const&>(c_).weight ? ", only biases" : "");
  }

  unsigned share_;
  std::vector<updating> optimizers_ = optimizers();
  decltype(composition_of<>()) c_{composition_of<>()};
  std::string name_;
  counts counts_;
};

} // namespace

TEST_CASE("the plan of every legal combination is sound") {
  bool const all = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr;
  auto const n = sweep(all ? 1 : 101).run();
  MESSAGE(n.legal << " legal combinations, " << n.refused << " that the program refuses, " << n.illegal
                  << " that a rule refuses; checked plans: " << n.planned << ", byte by byte: " << n.simulated
                  << ", too large: " << n.too_large);
  CHECK(n.too_large <= n.planned / 200);
  CHECK(n.legal > 100'000);
  CHECK(n.planned > n.legal / 150);
  CHECK(n.simulated > 0);
}
