#pragma once

#include "nccl_exchange.hpp"
#include "stream.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace on_host {

/// A call in a group.
struct nccl_operation {
  nccl_header header;
  void const* from = nullptr;
  void* to = nullptr;
  int peer = -1; // of a send or a receive; -1: a collective call

  std::size_t bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * bytes_of(static_cast<ncclDataType_t>(header.type));
  }
};

/// What the ranks of a communicator send at its making.
struct nccl_greeting {
  int rank = 0, process = 0, device = 0;
  bool refused = false; // by the first rank: two ranks have one device
};

} // namespace on_host

/// A communicator. A call that NCCL has not yet taken keeps it busy: its state is ncclInProgress.
struct on_host_communicator {
  static constexpr char const* name = "communicator";
  int rank, size, device, root_process, tag;
  ncclResult_t state = ncclInProgress;
  char const* busy_with = "ncclCommInitRankConfig";
  std::uint64_t polls_left = on_host::draw(4);
  std::function<bool()> progress;                               // of the busy call; whether it is done
  std::vector<std::unique_ptr<on_host::nccl_channel>> channels; // by rank
  std::int64_t collectives = 0;                                 // begun
  std::vector<std::int64_t> sent, received;                     // messages, by rank
  bool aborted = false, finalized = false;
  bool exchanging = false;                                    // calls of one communicator run one after another
  std::shared_ptr<int> references = std::make_shared<int>(0); // also held by what graphs captured, and by work

  void end() const {}
};
using ncclComm_t = on_host_communicator*;

namespace on_host {

inline std::int64_t nccl_bytes = 0;    // that this rank has sent
inline std::int64_t nccl_launches = 0; // groups of calls

/// Refuses work while a communicator is busy.
inline void refuse_if_busy(char const* call) {
  for (auto const* c : handles<on_host_communicator>::living())
    if (c->state == ncclInProgress)
      violated(
          call, text(c->busy_with, " is in progress"),
          "until ncclCommGetAsyncError says that NCCL has taken a call, there is no other one, nor work on streams");
}
/// The communicator of a call that may not meet a busy one.
inline on_host_communicator& idle_communicator(char const* call, ncclComm_t comm) {
  auto& c = handles<on_host_communicator>::use(call, comm);
  refuse_if_busy(call);
  if (c.finalized) violated(call, "the communicator was finalized", "nothing but ncclCommDestroy follows");
  if (c.device != current_device)
    violated(call, text("the communicator is of device ", c.device, ", and device ", current_device, " is current"),
             "calls are made on the device of the communicator");
  return c;
}

/// The exchange of one group of calls: the messages that this rank waits for, in order for each peer.
class nccl_exchange {
public:
  nccl_exchange(on_host_communicator& c, std::vector<nccl_operation> operations)
      : c_(c), operations_(std::move(operations)), received_(operations_.size()), next_(size_of(c.size)) {}

  /// Whether all is done. Begins when no other exchange of the communicator runs.
  bool poll() {
    if (c_.aborted) return true;
    if (!begun_) {
      if (c_.exchanging) return false;
      begin();
    }
    bool done = true;
    for (int r = 0; r < c_.size; ++r) done = receive_from(r) && c_.channels[size_of(r)]->flushed() && done;
    if (!done) return false;
    for (std::size_t i = 0; i < operations_.size(); ++i) finish(operations_[i], received_[i]);
    c_.exchanging = false;
    return true;
  }

private:
  using parts = std::vector<std::vector<char>>; // by rank
  static std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

  void begin() {
    begun_ = c_.exchanging = true;
    ++nccl_launches;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      auto& o = operations_[i];
      received_[i].resize(size_of(c_.size));
      if (o.peer >= 0) {
        bool const sends = o.header.call == nccl_call::send;
        auto& number = (sends ? c_.sent : c_.received)[size_of(o.peer)];
        o.header.number = number++;
        if (sends) send(o, o.peer, 0, o.header.count);
        else next_[size_of(o.peer)].push_back(i);
        continue;
      }
      o.header.number = c_.collectives++;
      for (int r = 0; r < c_.size; ++r) {
        if (r == c_.rank) continue;
        send_part(o, r);
        next_[size_of(r)].push_back(i);
      }
      count_bytes(o);
    }
  }
  /// Sends what rank r needs of a collective call.
  void send_part(nccl_operation const& o, int r) {
    auto const count = o.header.count;
    switch (o.header.call) {
    case nccl_call::reduce_scatter: return send(o, r, count * r, count);
    case nccl_call::broadcast: return send(o, r, 0, o.header.root == c_.rank ? count : 0);
    case nccl_call::reduce: return send(o, r, 0, o.header.root == r ? count : 0);
    default: return send(o, r, 0, count);
    }
  }
  void send(nccl_operation const& o, int r, std::int64_t from, std::int64_t count) {
    c_.channels[size_of(r)]->send(o.header, static_cast<char const*>(o.from) + o.bytes(from), o.bytes(count));
    if (o.peer >= 0) nccl_bytes += static_cast<std::int64_t>(o.bytes(count));
  }
  /// What the algorithms of NCCL send: rings, each of whose links carries the data once, or twice in an all-reduce.
  void count_bytes(nccl_operation const& o) const {
    auto const bytes = static_cast<std::int64_t>(o.bytes(o.header.count)), others = std::int64_t{c_.size} - 1;
    switch (o.header.call) {
    case nccl_call::all_reduce: nccl_bytes += 2 * bytes * others / c_.size; break;
    case nccl_call::broadcast: nccl_bytes += o.header.root == c_.rank ? bytes * others : 0; break;
    case nccl_call::reduce: nccl_bytes += o.header.root == c_.rank ? 0 : bytes; break;
    default: nccl_bytes += bytes * others;
    }
  }

  /// Takes the messages of rank r that have arrived; whether all have.
  bool receive_from(int r) {
    auto& waiting = next_[size_of(r)];
    while (!waiting.empty()) {
      nccl_header header;
      std::vector<char> data;
      if (!c_.channels[size_of(r)]->receive(header, data)) return false;
      auto const i = waiting.front();
      waiting.erase(waiting.begin());
      auto expected = operations_[i].header;
      if (expected.call == nccl_call::receive) expected.call = nccl_call::send;
      if (!(header == expected))
        violated(
            name_of(operations_[i].header.call),
            text("rank ", r, " makes the call ", header.text(), ", and rank ", c_.rank, " expects ", expected.text()),
            "all ranks make the same calls, in the same order");
      received_[i][size_of(r)] = std::move(data);
    }
    return true;
  }
  void finish(nccl_operation const& o, parts const& got) const {
    auto* const to = static_cast<char*>(o.to);
    auto const bytes = o.bytes(o.header.count);
    auto const put = [&](std::size_t at, std::vector<char> const& data) {
      if (!data.empty()) std::memcpy(to + at, data.data(), data.size());
    };
    switch (o.header.call) {
    case nccl_call::send:
    case nccl_call::finalize: return;
    case nccl_call::receive: return put(0, got[size_of(o.peer)]);
    case nccl_call::all_gather:
      for (int r = 0; r < c_.size; ++r) put(bytes * size_of(r), got[size_of(r)]);
      std::memmove(to + bytes * size_of(c_.rank), o.from, bytes);
      return;
    case nccl_call::broadcast:
      if (o.header.root != c_.rank) return put(0, got[size_of(o.header.root)]);
      std::memmove(to, o.from, bytes);
      return;
    case nccl_call::reduce:
      if (o.header.root == c_.rank) sum(o, 0, got);
      return;
    case nccl_call::reduce_scatter: return sum(o, bytes * size_of(c_.rank), got);
    case nccl_call::all_reduce: return sum(o, 0, got);
    }
  }
  /// The sum of this rank's elements, from byte `at` on, and those of the others.
  void sum(nccl_operation const& o, std::size_t at, parts const& got) const {
    std::vector<char const*> all;
    for (int r = 0; r < c_.size; ++r)
      all.push_back(r == c_.rank ? static_cast<char const*>(o.from) + at : got[size_of(r)].data());
    sum_parts(static_cast<ncclDataType_t>(o.header.type), all.data(), c_.size, static_cast<std::size_t>(o.header.count),
              static_cast<char*>(o.to));
  }

  on_host_communicator& c_;
  std::vector<nccl_operation> operations_;
  std::vector<parts> received_;                // by call
  std::vector<std::vector<std::size_t>> next_; // by rank: the calls whose messages are still to come
  bool begun_ = false;
};

} // namespace on_host
