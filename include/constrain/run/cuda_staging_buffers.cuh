#pragma once

#include "constrain/run/cuda_arena.cuh"
#include "constrain/run/cuda_staging_buffer.cuh"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The two buffers of a runner, which enqueued runs use in turn: the host fills one while the device reads the other.
class cuda_staging_buffers {
public:
  /// Stream and arena must outlive this object.
  cuda_staging_buffers(cuda_stream const& stream, cuda_arena& arena) : stream_(stream), arena_(arena) {}
  /// Waits for the last two enqueued runs. (The later run reads a result in the earlier run's buffer.)
  ~cuda_staging_buffers() {
    for (auto const& buffer : buffers_)
      if (buffer != nullptr) buffer->finish();
  }
  cuda_staging_buffers(cuda_staging_buffers const&) = delete;
  cuda_staging_buffers& operator=(cuda_staging_buffers const&) = delete;

  /// Begins to enqueue a run: waits for the second-to-last enqueued run, and takes its buffer. Until `end` or
  /// `abandon`, copies to the arena go through the buffer, so that they do not wait. `inputs`, `results`: bytes of all
  /// these copies, and of all results, each padded to a multiple of 8. Both numbers must be the same in every call,
  /// because the first call allocates both buffers. Throws `error` if CUDA fails.
  void begin(std::int64_t inputs, std::int64_t results) {
    current_device const here(stream_.device());
    for (auto& buffer : buffers_)
      if (buffer == nullptr) buffer = std::make_shared<cuda_staging_buffer>(stream_.device(), inputs, results);
    buffers_[next_]->begin();
    arena_.stage_in(buffers_[next_].get());
  }
  /// Ends the enqueuing of a run: enqueues copies of `results` (views of the arena with numbers of elements; a number
  /// of 0 means no copy) and returns the buffer that receives the copies, in the order of `results`. The copies stay
  /// valid until the second call to `begin` after this call. If the run may wait for other processes, the function
  /// returns only when the run is complete, because `pending_results::wait` has no deadline. Throws `error` if CUDA
  /// fails, and as `cuda_stream::wait_for_peers` does.
  std::shared_ptr<pending_results> end(std::initializer_list<std::pair<host_view, std::int64_t>> results) {
    current_device const here(stream_.device());
    for (auto const& [result, count] : results)
      if (count > 0) buffers_[next_]->copy_result(arena_.data(), result, count, stream_);
    buffers_[next_]->record(stream_);
    arena_.stage_in(nullptr);
    stream_.wait_for_peers();
    last_results_ = buffers_[next_]->results();
    return buffers_[std::exchange(next_, 1 - next_)];
  }
  /// Abandons a run whose enqueuing has failed. Waits until the stream's work so far is complete, because its copies
  /// use the buffer.
  void abandon() noexcept {
    arena_.stage_in(nullptr);
    try {                                          // the caller reports the error that ended the run
      current_device const here(stream_.device()); // cudaStreamLegacy is a stream of the current device
      try {
        stream_.wait_for_peers();
      } catch (...) {}
      cudaStreamSynchronize(stream_);
    } catch (...) {}
  }
  /// The results of the last run for which `end` has returned, in memory that the device can read. They are complete
  /// when the stream has finished this run. Null: no such run.
  std::byte const* last_results() const { return last_results_; }

private:
  cuda_stream const& stream_;
  cuda_arena& arena_;
  std::shared_ptr<cuda_staging_buffer> buffers_[2]; // shared with each `step_ticket` whose result is pending
  int next_ = 0;
  std::byte const* last_results_ = nullptr;
};

} // namespace constrain
