#pragma once

#include "nccl_types.hpp"
#include "random.hpp"

#include <mpi.h>

#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace on_host {

/// The calls of NCCL that exchange data, and those in which ranks only meet.
enum class nccl_call : std::int32_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  send,
  receive,
  finalize
};
inline char const* name_of(nccl_call c) {
  constexpr char const* names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast",
                                   "ncclReduce",    "ncclSend",          "ncclRecv",      "ncclCommFinalize"};
  return names[static_cast<int>(c)];
}

/// What precedes the data of a message: the call that the sender makes.
struct nccl_header {
  nccl_call call{};
  std::int32_t type = 0, operation = 0, root = 0;
  std::int64_t count = 0, number = 0; // number: of the collective calls of the communicator, or of the pair's messages

  friend bool operator==(nccl_header const&, nccl_header const&) = default;
  std::string text() const {
    constexpr char const* types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                     "uint64", "float16", "float32", "float64", "bfloat16"};
    return on_host::text(name_of(call), " of ", count, " ", types[type], " (call ", number, ", operation ", operation,
                         ", root ", root, ")");
  }
};

/// Messages between this process and one other, in the order in which they are posted. Nothing waits.
class nccl_channel {
public:
  nccl_channel(int process, int tag) : process_(process), tag_(tag) {}

  void send(nccl_header const& header, void const* data, std::size_t bytes) {
    auto& m = sending_.emplace_back();
    m.bytes.resize(sizeof header + bytes);
    std::memcpy(m.bytes.data(), &header, sizeof header);
    if (bytes > 0) std::memcpy(m.bytes.data() + sizeof header, data, bytes);
    MPI_Isend(m.bytes.data(), static_cast<int>(m.bytes.size()), MPI_BYTE, process_, tag_, MPI_COMM_WORLD, &m.request);
  }
  /// Takes the next message that has arrived; false: there is none.
  bool receive(nccl_header& header, std::vector<char>& data) {
    if (!receiving_) {
      int there = 0;
      MPI_Message message{};
      MPI_Status status{};
      MPI_Improbe(process_, tag_, MPI_COMM_WORLD, &there, &message, &status);
      if (there == 0) return false;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      receiving_ = std::make_unique<transfer>();
      receiving_->bytes.resize(static_cast<std::size_t>(bytes));
      MPI_Imrecv(receiving_->bytes.data(), bytes, MPI_BYTE, &message, &receiving_->request);
    }
    if (!receiving_->done()) return false;
    std::memcpy(&header, receiving_->bytes.data(), sizeof header);
    data.assign(receiving_->bytes.begin() + sizeof header, receiving_->bytes.end());
    receiving_ = nullptr;
    return true;
  }
  /// Whether all that was sent has left.
  bool flushed() {
    while (!sending_.empty() && sending_.front().done()) sending_.pop_front();
    return sending_.empty();
  }
  int process() const { return process_; }

private:
  struct transfer {
    std::vector<char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    bool done() {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    }
  };
  int process_, tag_;
  std::list<transfer> sending_; // no transfer moves while MPI has its address
  std::unique_ptr<transfer> receiving_;
};

} // namespace on_host
