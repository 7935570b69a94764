#pragma once

#include "graph.hpp"
#include "nccl_communicator.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace on_host {

/// The calls between ncclGroupStart and ncclGroupEnd.
struct nccl_group_state {
  int depth = 0;
  on_host_communicator* communicator = nullptr; // null: no call yet
  on_host_stream* stream = nullptr;
  std::vector<nccl_operation> operations;
  std::vector<on_host_communicator*> aborting;
};
inline nccl_group_state& nccl_group() {
  static auto* const only = new nccl_group_state;
  return *only;
}

/// Gives a stream the calls of a group. A captured call refers to the communicator as long as its graph lives.
inline void start_exchange(on_host_communicator& c, on_host_stream& s, std::vector<nccl_operation> const& operations) {
  work w;
  w.begin_exchange = [&c, operations, held = c.references]() -> std::function<bool()> {
    auto const exchange = std::make_shared<nccl_exchange>(c, operations);
    return [exchange] { return exchange->poll(); };
  };
  submit(s, std::move(w));
}
/// Lets the communicator be busy with a call for some polls, or not at all. `done`: what happens when NCCL takes it.
inline ncclResult_t take(on_host_communicator& c, char const* call, std::function<bool()> done) {
  refuse_work = [] { refuse_if_busy("work on a stream"); };
  c.polls_left = draw(4);
  if (c.polls_left == 0 && done()) return ncclSuccess;
  c.state = ncclInProgress;
  c.busy_with = call;
  c.progress = std::move(done);
  return ncclInProgress;
}
inline ncclResult_t end_group() {
  auto& g = nccl_group();
  for (auto* const c : std::exchange(g.aborting, {})) {
    device_queue::finish_all(); // their kernels end
    if (c->references.use_count() > 1)
      violated("ncclCommAbort", "a graph with calls of the communicator is alive", "it would wait for that for ever");
    handles<on_host_communicator>::destroy("ncclCommAbort", c);
  }
  auto* const c = std::exchange(g.communicator, nullptr);
  auto* const s = std::exchange(g.stream, nullptr);
  auto operations = std::exchange(g.operations, {});
  if (c == nullptr) return ncclSuccess;
  return take(*c, "ncclGroupEnd", [c, s, operations] {
    c->state = ncclSuccess; // its own work is allowed
    start_exchange(*c, *s, operations);
    return true;
  });
}

/// A call in a group, or one that is a group of its own.
inline ncclResult_t add_call(nccl_operation o, ncclComm_t comm, cudaStream_t stream, std::int64_t sent,
                             std::int64_t written) {
  auto const call = name_of(o.header.call);
  auto& c = idle_communicator(call, comm);
  auto& s = stream_of_current_device(call, stream);
  auto& g = nccl_group();
  if (fails(call)) return ncclSystemError;
  if ((g.communicator != nullptr && g.communicator != &c) || (g.stream != nullptr && g.stream != &s))
    violated(call, "a group has calls of two communicators, or on two streams", "no test needs that");
  if (o.header.root < 0 || o.header.root >= c.size || o.peer >= c.size)
    violated(call, "there is no such rank", text("there are ", c.size).c_str());
  if (sent > 0) device_memory::check(call, "the data to send", o.from, o.bytes(sent), c.device);
  if (written > 0) device_memory::check(call, "the place of the result", o.to, o.bytes(written), c.device);
  g.communicator = &c;
  g.stream = &s;
  g.operations.push_back(o);
  return g.depth == 0 ? end_group() : ncclSuccess;
}
inline nccl_operation collective(nccl_call call, void const* from, void* to, std::size_t count, ncclDataType_t type,
                                 ncclRedOp_t operation = ncclSum, int root = 0) {
  if (operation != ncclSum) violated(name_of(call), "an operation other than a sum", "no test needs that");
  return {{call, type, operation, root, static_cast<std::int64_t>(count), 0}, from, to, -1};
}
/// Refuses data that overlaps the result without being in place: at the element that NCCL documents.
inline void check_in_place(char const* call, void const* part, std::size_t bytes, void const* whole, std::size_t at,
                           std::size_t all) {
  auto const* const p = static_cast<char const*>(part);
  auto const* const w = static_cast<char const*>(whole);
  if (p != w + at && p < w + all && w < p + bytes)
    violated(call, "data and result overlap", "they are apart, or the call is in place");
}

/// The first rank collects the greetings and sends them to all; whether this rank has the answer.
struct nccl_meeting {
  on_host_communicator& c;
  std::vector<nccl_greeting> all;
  std::vector<std::unique_ptr<nccl_channel>> channels{}; // by process
  std::size_t come = 1;
  bool sent = false;

  bool poll() {
    int self = 0, processes = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int p = static_cast<int>(channels.size()); p < processes; ++p)
      channels.push_back(std::make_unique<nccl_channel>(p, c.tag + 1));
    nccl_greeting const mine{c.rank, self, c.device};
    nccl_header header;
    std::vector<char> data;
    if (self != c.root_process) {
      auto& root = *channels[static_cast<std::size_t>(c.root_process)];
      if (!std::exchange(sent, true)) root.send(header, &mine, sizeof mine);
      if (!root.receive(header, data)) return false;
      std::memcpy(all.data(), data.data(), data.size());
      return true;
    }
    all[static_cast<std::size_t>(c.rank)] = mine;
    for (auto& channel : channels) {
      if (!channel->receive(header, data)) continue;
      nccl_greeting other;
      std::memcpy(&other, data.data(), sizeof other);
      all[static_cast<std::size_t>(other.rank)] = other;
      ++come;
    }
    if (come < all.size()) return false;
    for (auto const& a : all)
      for (auto const& b : all) all[0].refused = all[0].refused || (a.rank < b.rank && a.device == b.device);
    for (auto const& a : all)
      if (a.process != self)
        channels[static_cast<std::size_t>(a.process)]->send(header, all.data(), all.size() * sizeof mine);
    return true;
  }
};

} // namespace on_host

inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  if (on_host::fails("ncclGetUniqueId")) return ncclSystemError;
  *id = {};
  int self = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  int const words[2] = {self, (self * 1000 + ++made) * 2 + 1000};
  std::memcpy(id->internal, words, sizeof words);
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  constexpr auto call = "ncclCommInitRankConfig";
  if (config == nullptr || config->blocking != 0)
    on_host::violated(call, "it blocks", "a rank that waits in NCCL for one that has ended would wait for ever");
  on_host::refuse_if_busy(call);
  *comm = nullptr;
  if (on_host::fails(call)) return ncclSystemError;
  int words[2];
  std::memcpy(words, id.internal, sizeof words);
  auto* const c = on_host::handles<on_host_communicator>::make();
  c->rank = rank, c->size = ranks, c->device = on_host::current_device;
  c->root_process = words[0], c->tag = words[1];
  c->sent.resize(static_cast<std::size_t>(ranks)), c->received.resize(static_cast<std::size_t>(ranks));
  *comm = c;
  on_host::refuse_work = [] { on_host::refuse_if_busy("work on a stream"); };
  auto const meeting = std::make_shared<on_host::nccl_meeting>(
      on_host::nccl_meeting{*c, std::vector<on_host::nccl_greeting>(static_cast<std::size_t>(ranks))});
  c->progress = [c, meeting] {
    if (!meeting->poll()) return false;
    for (auto const& g : meeting->all)
      c->channels.push_back(std::make_unique<on_host::nccl_channel>(g.process, c->tag));
    c->state = meeting->all[0].refused ? ncclInvalidUsage : ncclSuccess; // NCCL: two ranks have one device
    return true;
  };
  return ncclInProgress;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  auto& c = on_host::handles<on_host_communicator>::use("ncclCommGetAsyncError", comm);
  if (on_host::fails("ncclCommGetAsyncError")) return ncclSystemError;
  if (c.state == ncclInProgress && (c.polls_left == 0 || --c.polls_left == 0) && c.progress()) {
    c.progress = nullptr;
    if (c.state == ncclInProgress) c.state = ncclSuccess;
  }
  *error = c.state;
  return ncclSuccess;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  auto& c = on_host::handles<on_host_communicator>::use("ncclCommFinalize", comm);
  on_host::refuse_if_busy("ncclCommFinalize");
  if (on_host::fails("ncclCommFinalize")) return ncclSystemError;
  c.finalized = true;
  auto const meeting =
      std::make_shared<on_host::nccl_exchange>(c, std::vector<on_host::nccl_operation>{on_host::collective(
                                                      on_host::nccl_call::finalize, nullptr, nullptr, 0, ncclInt8)});
  return on_host::take(c, "ncclCommFinalize", [meeting] { return meeting->poll(); });
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto const& c = on_host::handles<on_host_communicator>::use("ncclCommDestroy", comm);
  if (!c.finalized || c.state == ncclInProgress)
    on_host::violated("ncclCommDestroy", "the communicator was not finalized", "it would wait for the other ranks");
  if (c.references.use_count() > 1)
    on_host::violated("ncclCommDestroy", "a graph with calls of the communicator is alive",
                      "it would wait for that for ever");
  on_host::handles<on_host_communicator>::destroy("ncclCommDestroy", comm);
  return ncclSuccess;
}
/// Of several communicators in a group: otherwise each would wait for the kernels of the others.
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto& c = on_host::handles<on_host_communicator>::use("ncclCommAbort", comm);
  if (c.aborted) on_host::violated("ncclCommAbort", "the communicator was aborted before", "it is aborted once");
  c.aborted = true;
  c.state = ncclSuccess;
  c.progress = nullptr;
  on_host::nccl_group().aborting.push_back(&c);
  return on_host::nccl_group().depth == 0 ? on_host::end_group() : ncclSuccess;
}
inline ncclResult_t ncclGroupStart() {
  ++on_host::nccl_group().depth;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupEnd() {
  auto& g = on_host::nccl_group();
  if (g.depth == 0) on_host::violated("ncclGroupEnd", "there is no group", "ncclGroupStart precedes it");
  if (--g.depth > 0) return ncclSuccess;
  if (on_host::fails("ncclGroupEnd")) {
    g.communicator = nullptr, g.stream = nullptr, g.operations.clear();
    return ncclSystemError;
  }
  return on_host::end_group();
}

inline ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                                  ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  auto const n = static_cast<std::int64_t>(count);
  return on_host::add_call(on_host::collective(on_host::nccl_call::all_reduce, from, to, count, type, operation), comm,
                           stream, n, n);
}
inline ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type,
                                      ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  auto const& c = on_host::handles<on_host_communicator>::use("ncclReduceScatter", comm);
  auto const n = static_cast<std::int64_t>(count);
  auto const bytes = count * on_host::bytes_of(type), ranks = static_cast<std::size_t>(c.size);
  on_host::check_in_place("ncclReduceScatter", to, bytes, from, bytes * static_cast<std::size_t>(c.rank),
                          bytes * ranks);
  return on_host::add_call(on_host::collective(on_host::nccl_call::reduce_scatter, from, to, count, type, operation),
                           comm, stream, n * c.size, n);
}
inline ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream) {
  auto const& c = on_host::handles<on_host_communicator>::use("ncclAllGather", comm);
  auto const n = static_cast<std::int64_t>(count);
  auto const bytes = count * on_host::bytes_of(type), ranks = static_cast<std::size_t>(c.size);
  on_host::check_in_place("ncclAllGather", from, bytes, to, bytes * static_cast<std::size_t>(c.rank), bytes * ranks);
  return on_host::add_call(on_host::collective(on_host::nccl_call::all_gather, from, to, count, type), comm, stream, n,
                           n * c.size);
}
inline ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  auto const& c = on_host::handles<on_host_communicator>::use("ncclBroadcast", comm);
  auto const n = static_cast<std::int64_t>(count);
  return on_host::add_call(on_host::collective(on_host::nccl_call::broadcast, from, to, count, type, ncclSum, root),
                           comm, stream, root == c.rank ? n : 0, n);
}
inline ncclResult_t ncclReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
  auto const& c = on_host::handles<on_host_communicator>::use("ncclReduce", comm);
  auto const n = static_cast<std::int64_t>(count);
  return on_host::add_call(on_host::collective(on_host::nccl_call::reduce, from, to, count, type, operation, root),
                           comm, stream, n, root == c.rank ? n : 0);
}
inline ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  auto o = on_host::collective(on_host::nccl_call::send, from, nullptr, count, type);
  o.peer = peer;
  return on_host::add_call(o, comm, stream, o.header.count, 0);
}
inline ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  auto o = on_host::collective(on_host::nccl_call::receive, nullptr, to, count, type);
  o.peer = peer;
  return on_host::add_call(o, comm, stream, 0, o.header.count);
}
