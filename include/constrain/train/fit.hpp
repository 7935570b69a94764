#pragma once

#include "constrain/device/cpu/gemm.hpp"
#include "constrain/train/explain.hpp"
#include "constrain/train/stopwatch.hpp"
#include "constrain/train/trainer.hpp"

#include <cstdio>
#include <optional>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How long `fit` trains and what it does on the way.
struct fit_options {
  optimizer_steps steps = 100;            // of the whole run, resumed ones included
  data::corpus const* validation = nullptr;
  optimizer_steps evaluate_every = 0;     // with a validation corpus; 0: at the end alone
  std::string directory{};                // of the checkpoint; none is saved where it is empty
  optimizer_steps save_every = 0;         // with a directory; 0: at the end alone
  std::FILE* log = stdout;                // null: silent
};

/// What came of it.
struct fit_result {
  optimizer_steps steps = 0;
  double loss = 0;                        // of the last step
  std::optional<evaluation> validation{}; // the last one
  double seconds = 0;
  double tokens_per_second = 0;           // of training, evaluation and saving left out
  std::int64_t skipped = 0;               // steps whose gradient was not finite
};

namespace detail {

/// What is known before the first step, as people like to see it.
template <class trainer> void print_start(std::FILE* out, trainer const& t) {
  std::fprintf(out, "%s | %s parameters | %lld x %lld x %lld = %lld tokens a step\n", trainer::policy_set::name().c_str(),
               grouped(trainer::parameter_count).c_str(), static_cast<long long>(trainer::micro_batches),
               static_cast<long long>(trainer::task::sequences), static_cast<long long>(trainer::task::tokens),
               static_cast<long long>(trainer::window_tokens));
  using device = typename trainer::policy_set::device;
  if constexpr (device::is_cuda)
    std::fprintf(out, "cuda, code for %d.%d | products by cuBLASLt | %s", device::capability / 10, device::capability % 10,
                 trainer::policy_set::launching::name);
  else std::fprintf(out, "cpu, code for %s | products by %s | %d threads", instruction_set, gemm_provider(), thread_count());
  std::fprintf(out, " | seed %llu\n", static_cast<unsigned long long>(t.state().seed));
  std::fputs(memory_table(trainer::memory).c_str(), out);
  if (t.steps() > 0)
    std::fprintf(out, "goes on after step %lld, epoch %lld, sample %lld\n", static_cast<long long>(t.steps().count()),
                 static_cast<long long>(t.state().position.epoch), static_cast<long long>(t.state().position.sample));
  std::fflush(out);
}

} // namespace detail

/// Trains on a corpus: a line a step, validation and checkpoints where they are asked for. The same as an own loop over
/// `windows` and `step`, with the same memory.
template <class trainer> fit_result fit(trainer& t, data::corpus const& corpus, fit_options options = {}) {
  if (t.rank() != 0) options.log = nullptr; // one process speaks for all
  auto const due = [&](optimizer_steps every) { return every > 0 && t.steps().count() % every.count() == 0; };
  stopwatch const since_start;
  auto const first_step = t.steps();
  fit_result result;
  double training_seconds = 0;
  std::int64_t tokens = 0;
  // A directory that cannot be written is better known now than after hours.
  if (!options.directory.empty() && t.rank() == 0) io::directory_writer{options.directory};
  if (options.log != nullptr) detail::print_start(options.log, t);

  auto const evaluate = [&] {
    result.validation = t.evaluate(*options.validation);
    if (options.log != nullptr)
      std::fprintf(options.log, "step %lld | validation loss %.4f | perplexity %.2f | accuracy %.3f\n",
                   static_cast<long long>(t.steps().count()), result.validation->loss, result.validation->perplexity,
                   result.validation->accuracy);
  };
  if (t.steps() < options.steps)
    for (auto const& window : t.windows(corpus)) {
      double const rate = t.learning_rate();
      stopwatch const since_began;
      auto const r = t.step(window);
      double const seconds = since_began.seconds();
      training_seconds += seconds;
      tokens += trainer::window_tokens * t.ranks();
      result.loss = r.loss;
      result.skipped += r.skipped ? 1 : 0;
      result.tokens_per_second = static_cast<double>(tokens) / training_seconds;
      bool const last = t.steps() >= options.steps;
      if (options.log != nullptr) {
        auto const done = t.steps().count() - first_step.count();
        double const left = training_seconds / static_cast<double>(done) * static_cast<double>(options.steps.count() - t.steps().count());
        std::fprintf(options.log, "step %lld/%lld | loss %.4f | norm %.3f | lr %.2e | %.0f ms | %.0f tok/s | eta %.0f s\n",
                     static_cast<long long>(t.steps().count()), static_cast<long long>(options.steps.count()), r.loss,
                     r.gradient_norm, rate, seconds * 1e3, result.tokens_per_second, left);
        if (r.skipped)
          std::fprintf(options.log, "skipped: the gradient of %s is not finite\n", std::string(r.not_finite).c_str());
        std::fflush(options.log);
      }
      if (options.validation != nullptr && (due(options.evaluate_every) || last)) evaluate();
      if (!options.directory.empty() && (due(options.save_every) || last)) t.save(options.directory);
      if (last) break;
    }
  result.steps = t.steps();
  result.seconds = since_start.seconds();
  return result;
}

} // namespace constrain
