#pragma once

#include "constrain/fit/record/records.hpp"
#include "constrain/fit/trainer_facts.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/results.hpp"

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The number of parameter elements of each role, for example "embedding 9,216 | weight 24,576". The roles are in the
/// order in which they first occur in `parameters`.
[[gnu::cold]] std::string parameters_by_role(std::span<parameter_info const> parameters);

/// A step's batch, for example "1 process x 2 micro-batches x 4 sequences = 8 sequences a step, of 32 tokens: 256
/// tokens". `ranks`: number of all ranks. `data_ranks`: number of ranks that train on different data; with tensor
/// parallelism, number of tensor groups. `micro_batches`: micro-batches per step on one rank. `sequences`: sequences
/// per micro-batch. `tokens`: tokens per sequence.
[[gnu::cold]] std::string batch_text(int ranks, int data_ranks, std::int64_t micro_batches, std::int64_t sequences,
                                     std::int64_t tokens);

/// Prints a warning if OpenMP's waiting threads spin and other programs compete for the processors. Times parallel
/// loops to find out, but only if the threads spin.
void print_waiting_threads(std::FILE* out);

/// Prints the run's header: policies, parameters, batch, device, seed, memory plan and, for a run with earlier steps,
/// where it continues in the data. `corpus`: the fingerprint of the data. On the CPU, also calls
/// `print_waiting_threads`. `peak`: the processor's measured FLOP/s; 0: not measured.
[[gnu::cold]] void print_start(std::FILE* out, trainer_facts const& t, double peak, std::uint64_t corpus);

/// Why a step was skipped, or was skipped for some tensors: the first parameter whose gradient has a norm that is not
/// finite, and the number of further ones. If there is none, the reason is the norm of all gradients together.
[[gnu::cold]] std::string skipped_text(step_result const& r);

/// Prints progress lines; none if `out` is null. On a terminal, a step's line overwrites the previous line if that is
/// also a step's line. All other lines stay.
class step_lines {
public:
  explicit step_lines(std::FILE* out) : out_(out), terminal_(out != nullptr && ::isatty(::fileno(out)) == 1) {}

  /// Prints a step. `steps`: steps of the whole run; `seconds_left`: estimated time to the end of the run;
  /// `share_of_peak`: FLOP/s of the step as a share of the processor's peak, 0 if unknown; `loss_scale`: loss scale of
  /// the step, 0 if the precision has none.
  void step(step_record const& r, std::int64_t steps, double seconds_left, double share_of_peak, double loss_scale);
  /// Prints a line, formatted as by printf, with '?' for control characters, and a line feed. Later lines do not
  /// overwrite it.
  [[gnu::cold, gnu::format(printf, 2, 3)]] void line(char const* format, ...);

private:
  std::FILE* out_;
  bool terminal_;     // whether `out_` is a terminal
  bool open_ = false; // whether the last line printed is a step's line that the next step overwrites
};

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/progress.ipp"
#endif
