#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/comm/watchdog.hpp"

// Skip MPI's C++ bindings: they were removed in MPI-3 (2012), but some installations still ship them, and they warn.
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

/// The processes that mpirun or srun started. Initializes MPI if the program has not, and then finalizes it at exit. A
/// process that waits for the others longer than `deadline` seconds ends with an error (see watchdog.hpp). A process
/// that exits with a nonzero status ends the job. Throws `error` if an MPI call fails.
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

  // Seconds that a failing rank waits for the others to fail or end too: less than their deadline, so that its error is
  // printed before theirs.
  static double patience(double deadline) { return std::min(deadline / 2, 3.0); }

  static MPI_Comm all_processes(double deadline);

  static void prepare_end(double deadline);

  /// Runs at exit. If this process failed and the others do not exit too within a few seconds, it ends the job.
  static void leave(int status);

  /// Whether all processes call this within `seconds`; 0: no limit but the deadline.
  static bool meet(double seconds);

  [[noreturn]] static void end_job(int status);

  void check(int status, char const* what) const;
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
