// The buffers of enqueued runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

namespace ct = constrain;

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
