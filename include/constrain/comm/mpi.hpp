#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/comm/watchdog.hpp"

// Skip MPI's C++ bindings: MPI-3 (2012) removed them, but some installations still ship them, with compiler warnings.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The processes that mpirun or srun started. Initializes MPI, and finalizes it at exit, unless the program has
/// initialized it. A process that waits for the others longer than `deadline` seconds ends with an error (see
/// watchdog.hpp). A process that exits with a nonzero status ends the job. Throws `error` if an MPI call fails.
class mpi final : public communicator {
public:
  /// All processes of the job. `deadline`: seconds that a wait for others may take.
  explicit mpi(double deadline = 1800) : mpi(all_processes(deadline), deadline) {}
  ~mpi() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(std::byte* all, std::int64_t const* offsets, std::int64_t const* lengths) override;
  void all_to_all(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                  std::byte* receive, std::int64_t length) override;
  void barrier() override;
  std::unique_ptr<communicator> groups_of(int ranks) override;
  [[noreturn]] void abort(int status) override { end_job(status); }
  bool all_come() override { return meet(patience(deadline_)); }
  void entered(char const* call) override { watchdog::instance().call(call); }

private:
  mpi(MPI_Comm processes, double deadline);

  // Seconds that a failing rank waits for the others to fail or end too: less than the deadline of the others, so that
  // the failing rank's error is printed before theirs.
  static double patience(double deadline) { return std::min(deadline / 2, 3.0); }

  /// All processes of the job; initializes MPI if needed.
  static MPI_Comm all_processes(double deadline);

  /// Registers `leave` to run at exit.
  static void prepare_end(double deadline);

  /// Runs at exit. Ends the job if this process failed and the others do not exit too within a few seconds.
  static void leave(int status);

  /// Whether all processes call `meet` within `seconds`; 0: the deadline is the only limit.
  static bool meet(double seconds);

  /// Ends all processes of the job.
  [[noreturn]] static void end_job(int status);

  /// Throws `error` unless an MPI call returned success; `what`: the purpose of the call.
  void check(int status, char const* what) const;
  /// Converts lengths and offsets to MPI's 32-bit integers. Throws `error` if one is too large.
  void fill(int* counts, int* starts, std::int64_t const* lengths, std::int64_t const* offsets) const;

  static inline MPI_Comm meeting_ = MPI_COMM_NULL; // all processes; used only by `meet`
  static inline bool own_start_ = false;
  static inline pid_t process_ = 0;
  static inline double last_deadline_ = 1800;

  MPI_Comm processes_ = MPI_COMM_NULL;
  bool own_ = false;
  double deadline_ = 1800;
  int rank_ = 0, size_ = 1;
  int send_counts_[maximum_size], send_offsets_[maximum_size], receive_counts_[maximum_size],
      receive_offsets_[maximum_size];
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/mpi.ipp"
#endif
