#pragma once

#include "constrain/fit/progress.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/device/cpu/gemm.hpp"
#include "constrain/device/cpu/processor.hpp"
#include "constrain/device/cpu/waiting_threads.hpp"
#include "constrain/train/memory_table.hpp"

#include <algorithm>
#include <cstdarg>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string parameters_by_role(std::span<parameter_info const> parameters) {
  std::string text;
  for (auto const& parameter : parameters) {
    std::int64_t elements = 0;
    bool is_first_of_role = true;
    for (auto const& other : parameters) {
      if (other.role != parameter.role) continue;
      is_first_of_role = is_first_of_role && &other >= &parameter;
      elements += other.elements();
    }
    if (is_first_of_role) text += concat({text.empty() ? "" : " | ", name_of(parameter.role), " ", grouped(elements)});
  }
  return text;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string batch_text(int ranks, int data_ranks, std::int64_t micro_batches,
                                                      std::int64_t sequences, std::int64_t tokens) {
  auto const trained_by =
      ranks == data_ranks
          ? counted(ranks, "process")
          : concat({counted(data_ranks, "tensor group"), " of ", counted(ranks / data_ranks, "process")});
  auto const batch_sequences = data_ranks * micro_batches * sequences;
  return concat({trained_by, " x ", counted(micro_batches, "micro-batch"), " x ", counted(sequences, "sequence"), " = ",
                 counted(batch_sequences, "sequence"), " a step, of ", counted(tokens, "token"), ": ",
                 grouped(batch_sequences * tokens), batch_sequences * tokens == 1 ? " token" : " tokens"});
}

[[gnu::cold]] CONSTRAIN_INLINE void print_waiting_threads(std::FILE* out) {
  if (!waiting_threads_spin()) return;
  double const seconds = parallel_loop_seconds();
  if (spinning_is_slower(seconds))
    std::fprintf(
        out,
        "the processors are busy with other programs: a parallel loop takes %.0f us to start, because OpenMP's threads "
        "spin while they wait for one another; set OMP_WAIT_POLICY=passive or a smaller OMP_NUM_THREADS\n",
        seconds * 1e6);
}

[[gnu::cold]] CONSTRAIN_INLINE void print_start(std::FILE* out, trainer_facts const& t, double peak,
                                                std::uint64_t corpus) {
  std::fprintf(out, "%s | %s %s: %s\n", printable(t.policies).c_str(), grouped(t.parameter_count).c_str(),
               t.parameter_count == 1 ? "parameter" : "parameters", parameters_by_role(t.parameters).c_str());
  std::fprintf(out, "%s\n", batch_text(t.ranks, t.data_ranks, t.micro_batches, t.sequences, t.tokens).c_str());
  if (t.cuda_capability > 0)
    std::fprintf(out, "cuda, code for %d.%d | GEMM by cuBLASLt | %s", t.cuda_capability / 10, t.cuda_capability % 10,
                 t.launching.c_str());
  else {
    std::fprintf(out, "cpu, code for %s", instruction_set);
    if (std::string_view const available = processor_instruction_set(); available != instruction_set)
      std::fprintf(out, " (the processor has %s: compile with -march=native)", available.data());
    std::fprintf(out, " | fp32 GEMM by %s | %s", gemm_provider(), counted(thread_count(), "thread").c_str());
    if (peak > 0) std::fprintf(out, " | peak %.0f GFLOP/s", peak * 1e-9);
  }
  std::fprintf(out, " | seed %llu\n", static_cast<unsigned long long>(t.state.seed));
  if (t.cuda_capability == 0) print_waiting_threads(out);
  std::fputs(memory_table(t.memory).c_str(), out);
  auto const number = [](std::int64_t n) { return static_cast<long long>(n); };
  if (t.state.steps > 0 && t.state.corpus != corpus)
    std::fprintf(out, "continues after step %lld with other data, from its beginning\n", number(t.state.steps.count()));
  else if (t.state.steps > 0)
    std::fprintf(out, "resumes after step %lld, epoch %lld, sample %lld\n", number(t.state.steps.count()),
                 number(t.state.position.epoch), number(t.state.position.sample));
  std::fflush(out);
}

[[gnu::cold]] CONSTRAIN_INLINE std::string skipped_text(step_result const& r) {
  auto const skipped = r.skipped ? "skipped: the " : "skipped for some tensors: the ";
  if (r.not_finite.empty()) return concat({skipped, "norm of all gradients together is not finite"});
  if (r.more_not_finite == 0) return concat({skipped, "gradient of ", r.not_finite, " is not finite"});
  return concat({skipped, "gradients of ", r.not_finite, " and ", r.more_not_finite, " more are not finite"});
}

[[gnu::cold]] CONSTRAIN_INLINE void step_lines::step(step_record const& r, std::int64_t steps, double seconds_left,
                                                     double share_of_peak, double loss_scale) {
  if (out_ == nullptr) return;
  if (terminal_) {
    constexpr int width = 24; // of the bar; the string of '=' below must be as long
    auto const filled = static_cast<int>(width * r.step / std::max<std::int64_t>(steps, 1));
    std::fprintf(out_, "\r[%.*s%*s] ", filled, "========================", width - filled, "");
  }
  std::fprintf(out_, "step %lld/%lld | loss %.4f | norm %.3f | lr %.2e | ", static_cast<long long>(r.step),
               static_cast<long long>(steps), r.loss, r.gradient_norm, r.learning_rate);
  if (loss_scale > 0) std::fprintf(out_, "scale %.6g | ", loss_scale);
  std::fprintf(out_, "%.0f ms | ", r.seconds * 1e3);
  if (share_of_peak > 0) std::fprintf(out_, "%.0f %% of peak | ", share_of_peak * 100);
  std::fprintf(out_, "%.0f tok/s | eta %.0f s", r.tokens_per_second, seconds_left);
  std::fputs(terminal_ ? "\033[K" : "\n", out_);
  open_ = terminal_;
  std::fflush(out_);
}

[[gnu::cold]] CONSTRAIN_INLINE void step_lines::line(char const* format, ...) {
  if (out_ == nullptr) return;
  std::va_list values;
  va_start(values, format);
  auto const text = printable(formatted_list(format, values));
  va_end(values);
  if (open_) std::fputc('\n', out_);
  open_ = false;
  std::fputs(text.c_str(), out_);
  std::fputc('\n', out_);
  std::fflush(out_);
}

} // namespace constrain::detail
