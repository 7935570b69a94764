#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/program/error.hpp"

// The C++ bindings left MPI in 2012; some installations still bring them, with warnings.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstdlib>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Processes started by mpirun or srun. Initialises MPI where the program has not, and then ends it at exit.
class mpi final : public communicator {
public:
  mpi() : mpi(all_processes()) {}
  ~mpi() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0 && own_) MPI_Comm_free(&processes_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(std::byte* all, std::int64_t const* offsets, std::int64_t const* lengths) override {
    fill(receive_counts_, receive_offsets_, lengths, offsets);
    check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, receive_counts_, receive_offsets_, MPI_BYTE, processes_), "gather");
  }
  void all_to_all(std::byte const* send, std::int64_t const* send_offsets, std::int64_t const* send_lengths,
                  std::byte* receive, std::int64_t length) override {
    fill(send_counts_, send_offsets_, send_lengths, send_offsets);
    for (int r = 0; r < size_; ++r) {
      // Everybody sends me a piece of the same length: that which I send to myself.
      receive_counts_[r] = static_cast<int>(send_lengths[rank_]);
      receive_offsets_[r] = static_cast<int>(r * length);
    }
    check(MPI_Alltoallv(send, send_counts_, send_offsets_, MPI_BYTE, receive, receive_counts_, receive_offsets_, MPI_BYTE,
                        processes_), "exchange");
  }
  void barrier() override { check(MPI_Barrier(processes_), "wait for one another"); }
  std::unique_ptr<communicator> groups_of(int ranks) override {
    MPI_Comm group = MPI_COMM_NULL;
    check(MPI_Comm_split(processes_, rank_ / ranks, rank_, &group), "form groups");
    auto* const made = new mpi(group);
    made->own_ = true;
    return std::unique_ptr<communicator>(made);
  }

private:
  explicit mpi(MPI_Comm processes) : processes_(processes) {
    MPI_Comm_rank(processes, &rank_);
    MPI_Comm_size(processes, &size_);
    if (size_ > maximum_size)
      throw error("there are " + std::to_string(size_) + " processes; start at most " + std::to_string(maximum_size));
  }

  static MPI_Comm all_processes() {
    int started = 0;
    MPI_Initialized(&started);
    if (started == 0) {
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
      std::atexit([] {
        int ended = 0;
        MPI_Finalized(&ended);
        if (ended == 0) MPI_Finalize();
      });
    }
    return MPI_COMM_WORLD;
  }

  void check(int status, char const* what) const {
    if (status != MPI_SUCCESS)
      throw error(std::string("the processes cannot ") + what + " (MPI says " + std::to_string(status) +
                  "); look whether one of them has ended, and start all of them again");
  }
  void fill(int* counts, int* starts, std::int64_t const* lengths, std::int64_t const* offsets) const {
    for (int r = 0; r < size_; ++r) {
      if (lengths[r] > 0x7FFFFFFF || offsets[r] > 0x7FFFFFFF)
        throw error("a piece of more than 2 GiB cannot be sent at once; use more ranks");
      counts[r] = static_cast<int>(lengths[r]);
      starts[r] = static_cast<int>(offsets[r]);
    }
  }

  MPI_Comm processes_ = MPI_COMM_NULL;
  bool own_ = false;
  int rank_ = 0, size_ = 1;
  int send_counts_[maximum_size], send_offsets_[maximum_size], receive_counts_[maximum_size], receive_offsets_[maximum_size];
};

} // namespace constrain
