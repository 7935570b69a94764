// Faults with streams, events and captures, each of which the stand-in finds, and the orders that it draws.

#include "cuda/stand_in/planted.hpp"

#include <cstring>

using namespace planted;

namespace {

cudaGraph_t captured(cudaStream_t s, int* to, int value) {
  cudaGraph_t graph{};
  cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
  start(s, 1, 1, set_kernel<int>, to, value);
  cudaStreamEndCapture(s, &graph);
  return graph;
}
static __global__ void copy_kernel(int const* from, int* to) { *to = *from; }

} // namespace

TEST_CASE("a handle is used while it lives") {
  cudaStream_t dead{};
  cudaStreamCreateWithFlags(&dead, cudaStreamNonBlocking);
  cudaStreamDestroy(dead);
  FOUND("this stream was destroyed, or never made", start(dead, 1, 1, empty_kernel));
  FOUND("cudaStreamDestroy: this stream was destroyed", cudaStreamDestroy(dead));
  FOUND("cudaStreamSynchronize: this stream was destroyed", cudaStreamSynchronize(dead));
  FOUND("cudaEventRecord: this event is null", cudaEventRecord(nullptr, nullptr));
  FOUND("cudaGraphLaunch: this executable graph is null", cudaGraphLaunch(nullptr, nullptr));
  stream const s;
  device_array<int> const a(1);
  auto* const graph = captured(s, a.data, 1);
  cudaGraphDestroy(graph);
  FOUND("cudaGraphInstantiate: this graph was destroyed", cudaGraphExec_t e{}; cudaGraphInstantiate(&e, graph));
}

TEST_CASE("a capture takes asynchronous calls alone") {
  stream const s;
  device_array<int> const a(1);
  int here = 0;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
  FOUND("cudaStreamSynchronize: it is called while a stream captures", cudaStreamSynchronize(s));
  FOUND("cudaDeviceSynchronize: it is called while", cudaDeviceSynchronize());
  FOUND("cudaMemcpy: it is called while", cudaMemcpy(&here, a.data, sizeof here, cudaMemcpyDeviceToHost));
  FOUND("cudaMemcpyAsync: a capture has a copy of pageable memory",
        cudaMemcpyAsync(a.data, &here, sizeof here, cudaMemcpyHostToDevice, s));
  FOUND("cudaMalloc: it is called while", void* more = nullptr; cudaMalloc(&more, 4));
  FOUND("cudaFree: it is called while", cudaFree(a.data));
  FOUND("it uses the default stream while another one captures", start(nullptr, 1, 1, empty_kernel));
  FOUND("cudaStreamDestroy: the stream is capturing", cudaStreamDestroy(s));
  FOUND("cudaStreamBeginCapture: the stream captures already", cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  cudaGraph_t graph{};
  cudaStreamEndCapture(s, &graph);
  cudaGraphDestroy(graph);
  FOUND("cudaStreamEndCapture: the stream does not capture", cudaStreamEndCapture(s, &graph));
}

TEST_CASE("a capture is joined again") {
  stream const one, two, other;
  event const forks, joins, outside;
  device_array<int> const a(2);
  cudaEventRecord(outside, other);
  cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed);
  cudaEventRecord(forks, one);
  cudaStreamWaitEvent(two, forks);
  start(two, 1, 1, set_kernel<int>, a.data, 7);
  cudaGraph_t graph{};
  FOUND("the capture has a stream that was not joined", cudaStreamEndCapture(one, &graph));
  FOUND("another stream began the capture", cudaStreamEndCapture(two, &graph));
  FOUND("the stream captures, and the event is not of its capture", cudaStreamWaitEvent(one, outside));
  FOUND("cudaEventSynchronize: it is an event of a capture", cudaEventSynchronize(forks));
  cudaEventRecord(joins, two);
  cudaStreamWaitEvent(one, joins);
  start(one, 1, 1, copy_kernel, a.data, a.data + 1);
  CHECK(cudaStreamEndCapture(one, &graph) == cudaSuccess);
  cudaGraphExec_t executable{};
  cudaGraphInstantiate(&executable, graph);
  CHECK(a[1] == -1);
  cudaGraphLaunch(executable, other);
  CHECK(a[1] == 7);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_CASE("an event is recorded before it is waited for") {
  stream const s;
  event const e;
  FOUND("cudaStreamWaitEvent: the event was never recorded", cudaStreamWaitEvent(s, e));
  FOUND("cudaEventSynchronize: the event was never recorded", cudaEventSynchronize(e));
}

TEST_CASE("work starts on streams of the current device") {
  on_host::devices.resize(2);
  stream const s;
  event const e;
  FOUND("the stream is one of device 0, and device 1 is current", cudaSetDevice(1); start(s, 1, 1, empty_kernel));
  FOUND("event and stream are of different devices", cudaSetDevice(1); stream const there; cudaEventRecord(e, there));
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  on_host::devices.resize(1);
}

TEST_CASE("work runs when the host waits, and pinned memory is read then") {
  stream const s;
  device_array<int> const a(1);
  void* memory = nullptr;
  cudaMallocHost(&memory, sizeof(int));
  auto* const pinned = static_cast<int*>(memory);
  *pinned = 1;
  cudaMemcpyAsync(a.data, pinned, sizeof(int), cudaMemcpyHostToDevice, s);
#if !defined(ON_HOST_TSAN) // which finds this race (races.cu)
  *pinned = 2;             // too early
  CHECK(a[0] == 2);
#endif
  int pageable = 3;
  cudaMemcpyAsync(a.data, &pageable, sizeof(int), cudaMemcpyHostToDevice, s);
  pageable = 4;
  CHECK(a[0] == 3);
  FOUND("cudaFreeHost: this address is not one that cudaMallocHost gave, or was freed", cudaFreeHost(pinned + 1));
  cudaFreeHost(memory);
}

#if !defined(ON_HOST_TSAN)
TEST_CASE("streams without an event between them run in any order") {
  stream const one, two;
  event const written;
  device_array<int> const a(2);
  int wrong = 0, unordered = 0;
  for (int i = 0; i < 40; ++i) {
    bool const waits = i % 2 == 0;
    start(one, 1, 1, set_kernel<int>, a.data, i);
    cudaEventRecord(written, one);
    if (waits) cudaStreamWaitEvent(two, written);
    start(two, 1, 1, copy_kernel, a.data, a.data + 1);
    if (waits) wrong += a[1] != i ? 1 : 0;
    else unordered += a[1] != i ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(unordered > 0);
}
#endif

TEST_CASE("the n-th call fails, without effect") {
  on_host::let_fail(2);
  cudaStream_t s{};
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 8) == cudaErrorMemoryAllocation);
  CHECK(memory == nullptr);
  CHECK(std::strcmp(on_host::failed, "cudaMalloc") == 0);
  CHECK(cudaMalloc(&memory, 8) == cudaSuccess);
  on_host::let_fail(1, true);
  CHECK(cudaStreamSynchronize(s) != cudaSuccess);
  CHECK(cudaStreamSynchronize(s) != cudaSuccess);
  on_host::let_fail(0);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  cudaFree(memory);
  cudaStreamDestroy(s);
}

TEST_CASE("a copy of pageable memory may arrive after the call returns") {
  int arrived = 0;
  for (int i = 0; i < 64; ++i) {
    stream const s;
    device_array<int> const a(2);
    int const value = 5;
    cudaMemcpy(a.data, &value, sizeof value, cudaMemcpyHostToDevice);
    start(s, 1, 1, copy_kernel, a.data, a.data + 1);
    cudaDeviceSynchronize();
    arrived += a[1] == 5 ? 1 : 0;
    CHECK(a[0] == 5);
  }
  CHECK(arrived > 0);
  CHECK(arrived < 64);
}
