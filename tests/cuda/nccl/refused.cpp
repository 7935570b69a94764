// Faults that the stand-in for NCCL, or the library, must find, on 2 ranks: the argument names the fault. The last line
// that the program prints is the sentence that the test looks for.

#include <constrain/device/cuda/nccl_ranks.cuh>

#include "cuda/nccl/ranks.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// A communicator of both ranks, a stream, and memory.
struct raw {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
  int rank;

  explicit raw(ct::communicator& world, int blocking = 0) : rank(world.rank()) {
    ncclUniqueId ids[2];
    cudaSetDevice(rank);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&data, 64 * sizeof(float));
    ncclGetUniqueId(&ids[rank]);
    ct::detail::all_gather_values(world, ids);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    ncclCommInitRankConfig(&comm, 2, ids[0], rank, &config);
    settle();
  }
  void settle() const {
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) ncclCommGetAsyncError(comm, &state);
  }
  void reduce(std::size_t count = 8, ncclDataType_t type = ncclFloat32) const {
    ncclAllReduce(data, data, count, type, ncclSum, comm, stream);
    settle();
  }
  void gather(std::size_t count = 8) const {
    ncclAllGather(data + 32, data, count, ncclFloat32, comm, stream);
    settle();
  }
  void wait() const { cudaStreamSynchronize(stream); }
};

using fault = std::function<void(ct::communicator&)>;

void calls_in_another_order(ct::communicator& world) {
  raw const r(world);
  if (r.rank == 0) r.reduce(), r.gather();
  else r.gather(), r.reduce();
  r.wait();
}
void graph_is_alive(ct::communicator& world, bool aborts) {
  raw const r(world);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeRelaxed);
  r.reduce();
  cudaStreamEndCapture(r.stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  cudaGraphLaunch(executable, r.stream);
  r.wait();
  if (!aborts) ncclCommFinalize(r.comm), r.settle();
  aborts ? ncclCommAbort(r.comm) : ncclCommDestroy(r.comm);
}
/// The library's own group, of which rank 1 does not come.
void rank_does_not_come(ct::communicator& world) {
  ct::current_device const here{ct::cuda_device(ct::device_of_rank(-1, world))};
  ct::cuda_stream stream(here.device());
  float* data = nullptr;
  cudaMalloc(&data, 64);
  int aborts = 0;
  {
    ct::nccl_ranks ranks(world, world, 1, true, [&] { ++aborts; });
    stream.set_waiter(&ranks);
    if (world.rank() == 1) ::sleep(30); // the other rank ends the job
    ranks.data().all_gather(static_cast<cudaStream_t>(stream), data + world.rank(), 1, data);
    for (auto const& call : {std::function<void()>([&] { stream.wait_for_peers(); }), std::function<void()>([&] {
                               ranks.data().all_gather(static_cast<cudaStream_t>(stream), data, 1, data);
                             })}) {
      try {
        call();
      } catch (ct::error const& e) { std::fprintf(stderr, "threw: %s\n", e.what()); }
    }
  }
  std::fprintf(stderr, "aborts: %d, still alive: %s\n", aborts, on_host::still_alive().c_str());
  world.abort(1);
}

std::map<std::string, fault> const faults = {
    {"operation",
     [](ct::communicator& world) {
       raw const r(world);
       if (r.rank == 0) r.reduce();
       else r.gather();
       r.wait();
     }},
    {"count",
     [](ct::communicator& world) {
       raw const r(world);
       r.reduce(r.rank == 0 ? 8 : 9);
       r.wait();
     }},
    {"type",
     [](ct::communicator& world) {
       raw const r(world);
       r.reduce(8, r.rank == 0 ? ncclFloat32 : ncclInt32);
       r.wait();
     }},
    {"order", calls_in_another_order},
    {"after_abort",
     [](ct::communicator& world) {
       raw const r(world);
       ncclCommAbort(r.comm);
       r.reduce();
     }},
    {"wrong_device",
     [](ct::communicator& world) {
       raw const r(world);
       cudaSetDevice(1 - r.rank);
       r.reduce();
     }},
    {"memory_of_another_device",
     [](ct::communicator& world) {
       raw r(world);
       cudaSetDevice(1 - r.rank);
       cudaMalloc(&r.data, 64 * sizeof(float));
       cudaSetDevice(r.rank);
       r.reduce();
     }},
    {"busy",
     [](ct::communicator& world) {
       raw const r(world);
       for (;;) { // some calls are taken at once
         ncclAllReduce(r.data, r.data, 8, ncclFloat32, ncclSum, r.comm, r.stream);
         cudaMemsetAsync(r.data, 0, 4, r.stream);
       }
     }},
    {"blocking", [](ct::communicator& world) { raw const r(world, 1); }},
    {"overlap",
     [](ct::communicator& world) {
       raw const r(world);
       ncclAllGather(r.data + 1, r.data, 8, ncclFloat32, r.comm, r.stream);
     }},
    {"destroy_with_a_graph", [](ct::communicator& world) { graph_is_alive(world, false); }},
    {"abort_with_a_graph", [](ct::communicator& world) { graph_is_alive(world, true); }},
    {"not_finalized",
     [](ct::communicator& world) {
       raw const r(world);
       ncclCommDestroy(r.comm);
     }},
    {"one_device",
     [](ct::communicator& world) {
       show_devices(1);
       ct::device_of_rank(-1, world);
     }},
    {"no_such_device", [](ct::communicator& world) { ct::device_of_rank(world.rank() * 9, world); }},
    {"late", rank_does_not_come},
};

} // namespace

int main(int, char** arguments) try {
  ct::mpi world;
  show_devices(2);
  faults.at(arguments[1])(world);
  std::puts("nothing was refused");
  world.barrier();
} catch (std::exception const& e) {
  std::fprintf(stderr, "threw: %s\n", e.what());
  return EXIT_FAILURE;
}
