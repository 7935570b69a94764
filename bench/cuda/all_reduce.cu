// All-reduce over the devices of an MPI job, started by mpirun with one rank per device: in rank order, as the trainers
// add gradients (reduce::ordered), and by NCCL (reduce::fast). Prints the bandwidth of each.

#include "event.cuh"

#include <constrain/comm/mpi.hpp>
#include <constrain/device/cuda/nccl_ranks.cuh>
#include <constrain/device/cuda/rank_device.cuh>
#include <constrain/op/collective/cuda.cuh>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ct = constrain;

namespace {

using target = ct::cuda<ct::sm<80>>;

/// Bytes of device memory.
struct memory {
  explicit memory(std::int64_t bytes) {
    ct::cuda_check(cudaMalloc(reinterpret_cast<void**>(&data), static_cast<std::size_t>(bytes)), "allocate memory");
  }
  memory(memory const&) = delete;
  ~memory() { cudaFree(data); }
  std::byte* data = nullptr;
};

/// The bandwidth of a link of a ring in GB/s ("bus bandwidth" in nccl-tests): an all-reduce sends 2 (n - 1) / n of the
/// bytes.
double bandwidth(std::int64_t bytes, int ranks, double seconds) {
  return 2e-9 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds;
}

void measure(ct::mpi& world) {
  ct::current_device const here{ct::cuda_device(ct::device_of_rank(-1, world))};
  ct::cuda_stream const stream(here.device());
  memory const parameters(target::parameter_bytes), buffer(ct::op::exchange_elements * 4);
  ct::cuda_context context(stream, parameters.data);
  ct::nccl_ranks ranks(world, world, 600, true, [] {});
  context.connect(ranks);
  ct::step_parameters const step{.data = &world, .context = &context};
  ct::attributes const none{};
  ct::call const call{none, step};
  ct::shape const shape(ct::op::exchange_elements);
  ct::tensor<float> const exchange{reinterpret_cast<float*>(buffer.data), &shape, ct::op::exchange_elements};
  constexpr std::int64_t most = ct::bench::measured ? 256 << 20 : 1 << 12;
  memory const values(most);
  ct::cuda_check(cudaMemsetAsync(values.data, 0, most, stream), "clear memory");
  if (world.rank() == 0) std::puts("     bytes   reduce::ordered      reduce::fast   (GB/s of a link)");
  for (std::int64_t bytes = most >> 8; bytes <= most; bytes *= 4) {
    ct::tensor<float> const y{reinterpret_cast<float*>(values.data), &shape, bytes / 4};
    auto const ordered = ct::bench::device_seconds_of(
        stream, 5, 3, [&](int) { ct::detail::all_reduce(target{}, call, ranks.data(), y, exchange); });
    auto const fast = ct::bench::device_seconds_of(
        stream, 5, 3, [&](int) { ranks.data().all_reduce(static_cast<cudaStream_t>(stream), y.data, y.count); });
    if (world.rank() == 0)
      std::printf("%10lld   %15.2f   %15.2f%s\n", static_cast<long long>(bytes),
                  bandwidth(bytes, world.size(), ordered), bandwidth(bytes, world.size(), fast),
                  ct::bench::measured ? "" : "   not measured: the host runs the kernels");
  }
  stream.wait_for_peers();
}

} // namespace

int main() try {
  ct::mpi world(600);
#if defined(CONSTRAIN_ON_HOST)
  on_host::devices.resize(static_cast<std::size_t>(world.size()));
#endif
  if (world.size() > 1) measure(world);
  else std::puts("start two or more ranks, one per device");
  return EXIT_SUCCESS;
} catch (ct::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return EXIT_FAILURE;
}
