#pragma once

#include "constrain/base/error.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/fit/fit.hpp"
#include "constrain/train/batches.hpp"
#include "constrain/train/cheapest.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/ranks.hpp"
#include "constrain/train/sample_set.hpp"
#include "constrain/train/trainer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `compare`, shared by all rows. Each row is one training run with one set of policies. As in `fit`, an
/// example counts as `task::tokens` tokens, regardless of its number of inputs and labels. In a task without tokens, an
/// example counts as one token.
struct compare_options {
  token_count tokens = 100'000; // training tokens per row, at least 1, over all ranks; rounded up to whole steps
  double learning_rate = 0; // for rows without a `strategy`, replaces the learning rates of the optimizer and of its
                            // `base`, if they have any; above 0 and finite in fp32, or 0: the defaults
  double clip_norm = 0;     // maximum L2 norm of all gradients together, at least 0; 0: no clipping;
                            // optimizer::in_backward needs 0
  double dropout = 0;       // probability with which ct::dropout zeroes an element, in [0, 1); models without
                            // ct::dropout need 0
  std::uint64_t seed = 0;   // seed of the initial weights, the order of samples, dropout and stochastic rounding
  // A row's `loss` is measured on held-out data: the end of a corpus, or randomly drawn examples.
  double validation_fraction = 0.02; // maximum fraction of the data to hold out, above 0 and at most 1
  // Maximum size of the held-out data, at least 1: in labels for a corpus, in tokens for examples. One example is
  // always allowed. Texts of one length (`data::corpus::text_length`) are held out whole, so the last may exceed it.
  std::int64_t validation_tokens = 16'384;
};

namespace detail {

/// Compile-time error unless `set` is `ct::policies<...>`. `type`: `set` or, after this error, the default policies.
template <class set> struct compared_set {
  using type = std::conditional_t<is_set<set>, set, policies<>>; // first: clang 14 skips members after a failed assert
  static_assert(is_set<set>, "compare: each set of policies must be a ct::policies<...>; write for example "
                             "ct::compare<task, ct::policies<>, ct::policies<ct::precision::bf16>>");
};

} // namespace detail

/// A row with hyperparameters and a name:
/// `strategy<policies<optimizer::sgd>>{.hyper = {.learning_rate = 0.1f}, .name = "sgd"}`.
template <class set> struct strategy {
  typename detail::compared_set<set>::type::optimizer::hyper hyper{}; // hyperparameters of the set's optimizer
  std::string name{}; // name of the row; empty: the name of the policies
};

/// Result of one row.
struct comparison {
  std::string name;             // name of the strategy, or of the policies
  double tokens_per_second = 0; // throughput of the median step, over all ranks, without the wait for data; tokens
                                // count as in `compare_options`, even if their label is ignored
  bytes planned_peak;           // bytes of one rank's arena (the memory of all tensors) that training and evaluation
                                // need, planned at compile time; `trainer::memory.peak` unless `predict` or `generate`
                                // needs more
  bytes used_peak;              // bytes of this rank's arena up to the last byte that was written to a buffer, plus
                                // step parameters and scratch memory
  double loss = 0;              // `evaluation::loss` of the validation data, after training
};

namespace detail {

/// Has a member `type`: the trainer of a task with the policies of `set`.
template <class task, class set> using trainer_with = trainer_of_set<task, typename compared_set<set>::type>;

/// The number of tokens per sequence of a task; 1 for a task without tokens. If `task` is not a task, the trainer
/// reports the error.
template <class task> inline constexpr std::int64_t compared_tokens = task_or_refusal<task>::task::tokens;

/// The run options of a row's trainer.
run_options run_of_row(compare_options const& o);

/// The ranks that compare rows with these trainers.
template <class... trainers> std::unique_ptr<communicator> world_to_compare(compare_options const& options) {
  return find_world<typename trainers::policy_set...>(run_of_row(options).deadline);
}

/// Throws `error` for an option out of range; the error names the field.
void check_comparison(compare_options const& o);

/// Splits the corpus into training and validation parts. Throws `error` for an option out of range, or if a part is too
/// short for one sequence of `tokens` tokens. Also throws as `corpus::split` does.
data::corpus::parts parts_to_compare(data::corpus const& corpus, compare_options const& options, std::int64_t tokens);
/// Splits examples at random into training and validation parts, which do not depend on the seed of the options.
/// `tokens`: tokens per example. A part may be empty: `measure` refuses it. Throws `error` for an option out of range,
/// and as `examples::split` does.
data::examples::parts parts_to_compare(data::examples const& examples, compare_options const& options,
                                       std::int64_t tokens);

/// Throws `error` on every rank if the options that no trainer compares, or the data, differ between ranks. `training`,
/// `held_out`: the fingerprints of the two parts of the data. Collective.
void check_comparisons_agree(communicator& world, compare_options const& o, std::uint64_t training,
                             std::uint64_t held_out);

/// Throws `error` if no sample of the held-out data has a valid label.
void check_held_out(sample_set const& validation);

/// Throws `error` for the row `name`: its name, then `text`, in which "compare_options" replaces "run_options".
[[noreturn]] void refuse_row(std::string const& name, std::string text);

/// The name of a row: `name`, or the name of its policies if `name` is empty.
template <class trainer> std::string name_of_row(std::string const& name) {
  return name.empty() ? trainer::policy_set::name() : name;
}

/// Returns `f()`. If `f` throws `error`, throws `error` with the name of the row and the text of `f`'s error.
template <class trainer, class function> decltype(auto) in_row(std::string const& name, function const& f) try {
  return f();
} catch (error const& e) { refuse_row(name_of_row<trainer>(name), e.what()); }

/// Splits the data, after checks of the options and the data. If a check fails on one rank, or if the options that no
/// trainer compares, or the data, differ between ranks, all ranks throw. `world`: the ranks that compare. `has_hyper`:
/// whether each row has its own hyperparameters. `tokens`: tokens per sample. Collective.
template <class dataset>
auto agreed_parts(communicator& world, dataset const& d, compare_options const& options, bool has_hyper,
                  std::int64_t tokens) {
  std::optional<decltype(parts_to_compare(d, options, tokens))> parts;
  agreed(world, joint_call::compare, [&] {
    if (has_hyper && options.learning_rate != 0)
      throw error(
          {"compare: .learning_rate is set, but each strategy has its own in .hyper; leave .learning_rate out"});
    parts.emplace(parts_to_compare(d, options, tokens));
  });
  check_comparisons_agree(world, options, parts->train.fingerprint(), parts->validation.fingerprint());
  return *std::move(parts);
}

/// Throws `error` on all ranks of `world` if, on any rank, the row's trainer refuses the options, the hyperparameters
/// or the number of ranks. Collective. Allocates no arena, so `compare` can check all rows before it trains the first
/// one.
template <class trainer>
void check_row(communicator& world, compare_options const& options, typename trainer::hyper const& hyper,
               std::string const& name) {
  in_row<trainer>(name, [&] {
    auto const run = run_of_row(options);
    find_ranks<typename trainer::policy_set>(run.deadline); // only for its errors
    agreed(world, joint_call::compare, [&] { check_values<typename trainer::entries>(hyper, run); });
  });
}

/// The data of one row.
struct row_data {
  sample_set validation;                  // the samples that the loss is measured on
  std::unique_ptr<batch_range> batches{}; // of the training data; a pointer, because a `batch_range` cannot be moved
};

/// The data of the row that `t` trains. Throws `error` on all ranks of `world` if, on any rank, the data does not fit
/// the trainer, or a part of the data has no sample or no valid label. Collective.
template <class trainer, class parts_of_data>
row_data data_of_row(communicator& world, trainer const& t, parts_of_data const& parts) {
  row_data data;
  agreed(world, joint_call::compare, [&] {
    auto const training = samples_of<trainer, true>("compare", parts.train, "a smaller .validation_fraction");
    data.validation = samples_of<trainer, false>("compare", parts.validation, "a larger .validation_fraction");
    check_held_out(data.validation);
    data.batches.reset(new batch_range(t.batches(training, data::tail::carry, "compare")));
  });
  return data;
}

/// Trains one row and measures its speed, memory and loss. Throws `error` as `data_of_row` does, and the errors of the
/// trainer, preceded by the name of the row. If only some ranks throw during the training, the job ends. If `name` is
/// empty, the row is named after its policies. Collective.
template <class trainer, class parts_of_data>
comparison measure(communicator& world, parts_of_data const& parts, compare_options const& options,
                   typename trainer::hyper const& hyper, std::string const& name) {
  using entries = typename trainer::entries;
  auto t = in_row<trainer>(name, [&] { return trainer(hyper, run_of_row(options)); });
  auto const data = data_of_row(world, t, parts);
  std::vector<double> seconds;
  comparison row;
  row.name = name_of_row<trainer>(name);
  auto const step_tokens = trainer::batch_tokens * t.data_ranks();
  auto const steps = (options.tokens.count() - 1) / step_tokens + 1;
  auto const train = [&] {
    for (auto const& batch : *data.batches) {
      if (static_cast<std::int64_t>(seconds.size()) == steps) break;
      stopwatch const step_time;
      t.step(batch);
      seconds.push_back(step_time.seconds());
    }
    row.loss = t.evaluate(data.validation, [] { return false; })->loss;
  };
  in_row<trainer>(name, [&] { run_or_end_job(world, joint_call::compare, train); });
  auto const median = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), median, seconds.end());
  row.tokens_per_second = static_cast<double>(step_tokens) / *median;
  auto const planned_end = std::max(entries::step::where.end, entries::evaluate::where.end);
  row.planned_peak = bytes(planned_end) + entries::memory.peak - bytes(entries::buffers_end);
  row.used_peak = t.used_bytes();
  return row;
}

/// The optimizer's default hyperparameters, with the learning rate `options.learning_rate` if that is above 0.
template <class trainer> typename trainer::hyper common_hyper(compare_options const& options) {
  typename trainer::hyper hyper{};
  if (options.learning_rate > 0) set_learning_rates(hyper, options.learning_rate);
  return hyper;
}

} // namespace detail

/// Trains a task with each set of policies in turn, on the same data, and returns one row for each set, in order, with
/// the speed, the memory and the validation loss:
///
///     compare<task, policies<precision::fp32>, policies<checkpoint::every<1>>>(corpus, {.tokens = 100'000})
///
/// The data is a corpus or examples. Collective: all ranks call it. Throws `error` for an option out of range, for too
/// little data, for held-out data without a valid label, and if options or data differ between ranks. Also throws the
/// errors of the data's `split`, and of `trainer`'s constructor, `batches`, `step` and `evaluate`. Before the first row
/// is trained, the options, the hyperparameters and the number of ranks are checked for all rows; an error that
/// concerns only one row names it. If a set of policies is parallel and a check fails on one rank, all ranks throw; if
/// only some ranks throw during the training, the job ends.
template <class task, class... sets, data::is_dataset dataset>
std::vector<comparison> compare(dataset const& d, compare_options const& options = {}) {
  static_assert(sizeof...(sets) > 0, "compare: there is no set of policies; write at least one, for example "
                                     "ct::compare<task, ct::policies<>>");
  auto const world = detail::world_to_compare<typename detail::trainer_with<task, sets>::type...>(options);
  auto const parts = detail::agreed_parts(*world, d, options, false, detail::compared_tokens<task>);
  (detail::check_row<typename detail::trainer_with<task, sets>::type>(
       *world, options, detail::common_hyper<typename detail::trainer_with<task, sets>::type>(options), {}),
   ...);
  return {detail::measure<typename detail::trainer_with<task, sets>::type>(
      *world, parts, options, detail::common_hyper<typename detail::trainer_with<task, sets>::type>(options), {})...};
}

/// `compare` with hyperparameters and a name for each row:
///
///     compare<task>(corpus, {.tokens = 100'000}, strategy<policies<>>{.hyper = {.learning_rate = 3e-3f}},
///                   strategy<policies<optimizer::sgd>>{.hyper = {.learning_rate = 0.3f}})
///
/// Throws as the `compare` above does, and throws `error` if `options.learning_rate` is not 0.
template <class task, class first, class... rest, data::is_dataset dataset>
std::vector<comparison> compare(dataset const& d, compare_options const& options, strategy<first> const& first_strategy,
                                strategy<rest> const&... further_strategies) {
  auto const world = detail::world_to_compare<typename detail::trainer_with<task, first>::type,
                                              typename detail::trainer_with<task, rest>::type...>(options);
  auto const parts = detail::agreed_parts(*world, d, options, true, detail::compared_tokens<task>);
  detail::check_row<typename detail::trainer_with<task, first>::type>(*world, options, first_strategy.hyper,
                                                                      first_strategy.name);
  (detail::check_row<typename detail::trainer_with<task, rest>::type>(*world, options, further_strategies.hyper,
                                                                      further_strategies.name),
   ...);
  return {detail::measure<typename detail::trainer_with<task, first>::type>(*world, parts, options,
                                                                            first_strategy.hyper, first_strategy.name),
          detail::measure<typename detail::trainer_with<task, rest>::type>(
              *world, parts, options, further_strategies.hyper, further_strategies.name)...};
}

/// The rows as a text table, one row per line, under a line of column names. Each line ends with a line feed.
[[gnu::cold]] std::string table(std::vector<comparison> const& rows);

/// The rows as a JSON array of objects with the fields of `comparison`; planned_peak and used_peak are in bytes. A loss
/// that is not finite is the string "nan", "inf" or "-inf". Throws `error` for a name that is not UTF-8.
std::string json(std::vector<comparison> const& rows);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/compare.ipp"
#endif
