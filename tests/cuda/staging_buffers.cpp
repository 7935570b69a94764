// The buffers of enqueued runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "sentence.hpp"

namespace ct = constrain;

TEST_CASE("a lack of pinned memory is told from a failure of the device") {
  on_host::let_fail(1);
  auto const what = ct::test::sentence([] { ct::pinned_memory(64); });
  on_host::let_fail(0);
  CHECK(what == "CUDA could not allocate 64 bytes of pinned host memory for a step's batch and results; free host "
                "memory, or use a smaller batch");
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("buffers have no last results before a run has ended, and then the results of that run") {
  ct::cuda_stream const stream(ct::cuda_device(0));
  ct::cuda_arena arena(ct::bytes(64), stream);
  ct::cuda_staging_buffers buffers(stream, arena);
  CHECK(buffers.last_results() == nullptr);
  buffers.begin(8, 8);
  CHECK(buffers.last_results() == nullptr);
  buffers.abandon();
  CHECK(buffers.last_results() == nullptr);
  buffers.begin(8, 8);
  auto const first = buffers.end({});
  CHECK(buffers.last_results() == first->wait());
  buffers.begin(8, 8);
  CHECK(buffers.last_results() == first->wait());
  auto const second = buffers.end({});
  CHECK(buffers.last_results() == second->wait());
}
