#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/comm/watchdog.hpp"

// Skip MPI's C++ bindings: MPI-3 (2012) removed them, but some installations still ship them, and they cause compiler
// warnings.
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

/// A communicator over MPI, for the processes that mpirun or srun started. If the program has not initialized MPI, this
/// class initializes it (MPI_THREAD_FUNNELED: only the thread that constructs the first object may then use this
/// class), and finalizes it at exit. A process that waits for other processes longer than `deadline` seconds (in the
/// constructor, 60 seconds if `deadline` is less) ends with an error (see watchdog.hpp). A process that exits with a
/// nonzero status before MPI is finalized (detected only with glibc) ends the job, unless the other processes fail or
/// exit too within a few seconds. If the program has initialized MPI itself, an exit of another process with status 0
/// does not count. The collective functions of `communicator` throw `error` if MPI returns an error code (by default,
/// MPI aborts the job instead). They transfer any number of bytes: MPI's counts and offsets are 32-bit integers, so a
/// large transfer is cut into slices, and each slice is an MPI call. The destructor of a group, the result of
/// `groups_of` or `strided_groups`, is collective over the group.
class mpi final : public communicator {
public:
  /// The default maximum number of bytes of an MPI call: the largest multiple of 4096 that fits in MPI's counts.
  static constexpr std::int64_t maximum_call_bytes = 0x7FFFF000;

  /// The communicator of all processes of the job. `deadline`: maximum wait for other processes, in seconds; must be
  /// above 0, which is not checked. `call_bytes`: `all_gather` and `all_to_all` cut a transfer beyond this number of
  /// bytes into slices of this size, also in groups; must be from 1 to `maximum_call_bytes` and equal on all ranks,
  /// which is not checked. Throws `error` if the program has called MPI_Finalize, or if there are more than
  /// `maximum_size` processes. The first construction in a program is collective.
  explicit mpi(double deadline = 1800, std::int64_t call_bytes = maximum_call_bytes)
      : mpi(initialized_world(deadline), deadline, call_bytes) {}
  ~mpi() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int rank_on_node() override;

  void all_gather(std::byte* buffer, std::int64_t const* offsets, std::int64_t const* lengths) override;
  void all_to_all(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                  std::byte* receive, std::int64_t length) override;
  void barrier() override;
  std::unique_ptr<communicator> groups_of(int ranks) override { return split(rank_ / ranks); }
  std::unique_ptr<communicator> strided_groups(int stride) override { return split(rank_ % stride); }
  [[noreturn]] void abort(int status) override { end_job(status); }
  bool all_failed_or_exited() override { return timed_barrier(exit_timeout(deadline_), false); }
  void entered(char const* call) override { watchdog::instance().call(call); }

private:
  /// The communicator of `processes`. Throws `error` if there are more than `maximum_size` processes.
  mpi(MPI_Comm processes, double deadline, std::int64_t call_bytes);

  /// The number of seconds that a failing rank waits for the other ranks to fail or exit too. This is less than the
  /// deadline of the other ranks, so that the failing rank usually prints its error before their watchdogs print
  /// theirs.
  static double exit_timeout(double deadline) { return std::min(deadline / 2, 3.0); }

  /// Initializes MPI if needed. Returns the MPI communicator of all processes of the job. Throws `error` if the program
  /// has called MPI_Finalize.
  static MPI_Comm initialized_world(double deadline);

  /// The group of all ranks that pass the same `group`. Collective.
  std::unique_ptr<communicator> split(int group);

  /// Registers `leave` to run at exit and prepares `timed_barrier` and the watchdog.
  static void prepare_end(double deadline);

  /// Runs at exit. Does nothing in a forked child, or if MPI is already finalized. With a nonzero status, ends the job
  /// unless the other processes fail or exit too within a few seconds. Then waits until all processes exit and
  /// finalizes MPI, if this class has initialized MPI. (If the program has initialized MPI, mpirun reports a process
  /// that exits too early, and a wait would delay this report until the deadline.)
  static void leave(int status);

  /// Waits for all processes to call `timed_barrier`, for at most about `seconds`. Returns whether all have called it;
  /// if so, `all_exit_` tells whether all exit. If `seconds` is 0, only the deadline limits the wait. Returns false if
  /// MPI fails. `exits`: whether this process exits; false: it has failed, and may continue.
  static bool timed_barrier(double seconds, bool exits);

  /// Ends all processes of the job; this process exits with `status`.
  [[noreturn]] static void end_job(int status);

  /// Throws `error` unless `status`, the result of an MPI call, is MPI_SUCCESS. `action`: the call's purpose, for the
  /// error, such as "gather data".
  void check(int status, char const* action) const;
  /// The end of the last range: the maximum of offset + length over the `size()` ranges.
  std::int64_t end_of(std::int64_t const* offsets, std::int64_t const* lengths) const;
  /// Converts the parts of the ranges that are in bytes [begin, begin + call_bytes_) to MPI's 32-bit integers: `starts`
  /// are offsets from `begin`. All four arrays have `size()` elements.
  void convert(int* counts, int* starts, std::int64_t const* offsets, std::int64_t const* lengths,
               std::int64_t begin) const;
  /// Sends and receives bytes [first, first + call_bytes_) of each range of `all_to_all`, for ranges at any offset.
  void exchange_slice(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                      std::byte* receive, std::int64_t length, std::int64_t first);
  /// Makes `type` the datatype of `length` bytes that begin `offset` bytes after the beginning of a buffer, and returns
  /// 1, the number of elements of this type to transfer. If `length` is 0, returns 0 and leaves `type` unchanged. An
  /// offset in a datatype has 64 bits.
  int make_datatype(MPI_Datatype& type, std::int64_t offset, std::int64_t length) const;

  static inline MPI_Comm barrier_processes_ = MPI_COMM_NULL; // all processes; used only by `timed_barrier`
  static inline int all_exit_ = 0; // 1: all processes that met in the last `timed_barrier` exit; 0: some only failed
  static inline bool initialized_mpi_ = false; // whether this class has initialized MPI
  static inline pid_t process_id_ = 0;         // id of the process that registered `leave`: a forked child has another
  static inline double last_deadline_ = 1800;  // last deadline passed to `mpi(deadline)`; used at exit

  MPI_Comm processes_ = MPI_COMM_NULL;
  bool frees_processes_ = false; // whether the destructor must free `processes_`
  double deadline_ = 1800;
  std::int64_t call_bytes_ = maximum_call_bytes;
  int rank_ = 0, size_ = 1;
  int send_counts_[maximum_size], send_offsets_[maximum_size], receive_counts_[maximum_size],
      receive_offsets_[maximum_size];
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/mpi.ipp"
#endif
