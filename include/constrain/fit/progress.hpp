#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/device/cpu/gemm.hpp"
#include "constrain/device/cpu/processor.hpp"
#include "constrain/fit/record/records.hpp"
#include "constrain/train/memory_table.hpp"
#include "constrain/train/parameter_table.hpp"

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The number of parameter elements of each role, for example "embedding 9,216 | weight 24,576".
[[gnu::cold]] std::string parameters_by_role(std::span<parameter_info const> all);

/// A step's batch, for example "1 process x 2 micro-batches x 4 sequences = 8 sequences a step, of 32 tokens: 256
/// tokens". `data_ranks`: number of ranks that train on different data; if `ranks` is larger, each is a tensor group.
[[gnu::cold]] std::string batch_text(int ranks, int data_ranks, std::int64_t micro_batches, std::int64_t sequences,
                                     std::int64_t tokens);

/// Prints a warning if OpenMP's waiting threads spin and other programs compete for the processors.
void print_waiting_threads(std::FILE* out);

/// Prints the run's header: policies, parameters, batch, device, seed, memory plan and, for a resumed run, the position
/// in the data. `peak`: the processor's measured FLOP/s; 0: not measured.
template <class trainer> [[gnu::noinline, gnu::cold]] void print_start(std::FILE* out, trainer const& t, double peak) {
  auto const number = [](auto n) { return static_cast<long long>(n); };
  constexpr auto const& parameters = trainer::entries::parameters;
  std::fprintf(out, "%s | %s parameters: %s\n", printable(trainer::policy_set::name()).c_str(),
               grouped(trainer::parameter_count).c_str(),
               parameters_by_role({parameters.parameters, static_cast<std::size_t>(parameters.size)}).c_str());
  std::fprintf(
      out, "%s\n",
      batch_text(t.ranks(), t.data_ranks(), trainer::micro_batches, trainer::task::sequences, trainer::task::tokens)
          .c_str());
  using device = typename trainer::policy_set::device;
  if constexpr (device::value.is_cuda)
    std::fprintf(out, "cuda, code for %d.%d | GEMM by cuBLASLt | %s", device::value.capability / 10,
                 device::value.capability % 10, trainer::policy_set::launching::name);
  else {
    std::fprintf(out, "cpu, code for %s", instruction_set);
    if (std::string_view const has = processor_instruction_set(); has != instruction_set)
      std::fprintf(out, " (the processor has %s: compile with -march=native)", has.data());
    std::fprintf(out, " | GEMM by %s | %d threads", gemm_provider(), thread_count());
    if (peak > 0) std::fprintf(out, " | peak %.0f GFLOP/s", peak * 1e-9);
  }
  std::fprintf(out, " | seed %llu\n", static_cast<unsigned long long>(t.state().seed));
  if constexpr (!device::value.is_cuda) print_waiting_threads(out);
  std::fputs(memory_table(trainer::memory).c_str(), out);
  if (t.steps() > 0)
    std::fprintf(out, "resumes after step %lld, epoch %lld, sample %lld\n", number(t.steps().count()),
                 number(t.state().position.epoch), number(t.state().position.sample));
  std::fflush(out);
}

/// Prints progress lines. On a terminal, each step's line overwrites the line of the step before; in a file, every line
/// stays.
class step_lines {
public:
  explicit step_lines(std::FILE* out) : out_(out), terminal_(out != nullptr && ::isatty(::fileno(out)) == 1) {}

  /// Prints a step. `steps`: steps of the whole run; `seconds_left`: estimated time to the end of the run;
  /// `share_of_peak`: FLOP/s of the step as a share of the processor's peak, 0 if unknown; `loss_scale`: loss scale of
  /// the step, 0 if the precision has none.
  void step(step_record const& r, std::int64_t steps, double seconds_left, double share_of_peak, double loss_scale);
  /// Prints a line, formatted as by printf. Later lines do not overwrite it.
  [[gnu::cold, gnu::format(printf, 2, 3)]] void line(char const* format, ...);

private:
  std::FILE* out_;
  bool terminal_, open_ = false;
};

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/progress.ipp"
#endif
