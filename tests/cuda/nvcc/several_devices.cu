// Training on several CUDA devices, compiled by nvcc and linked with NCCL and MPI. Started by mpirun with one rank per
// device, it trains with ddp and zero<3> and compares them; without a device it says so.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 32}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#if !defined(CONSTRAIN_CUDA_ARCHITECTURE)
#define CONSTRAIN_CUDA_ARCHITECTURE 80
#endif
using device = ct::device::cuda<ct::sm<CONSTRAIN_CUDA_ARCHITECTURE>>;

/// The losses of ten steps, and the weights after them.
template <class policy> std::vector<double> trained() {
  ct::trainer<task, ct::precision::bf16, policy, device, ct::launch::graph> t({.learning_rate = 1e-3f});
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(t.batch_tokens)), labels(inputs);
  std::vector<double> all;
  for (int number = 0; number < 10; ++number) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto const k = i * 5 + static_cast<std::size_t>(number * 3 + t.rank() * 7);
      inputs[i] = static_cast<std::int32_t>(k % 256), labels[i] = static_cast<std::int32_t>((k + 5) % 256);
    }
    all.push_back(t.step(t.batch(inputs, labels)).loss);
  }
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

} // namespace

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("there is no CUDA device, so nothing runs");
    return EXIT_SUCCESS;
  }
  auto const ddp = trained<ct::parallel::ddp>(), zero = trained<ct::parallel::zero<3, CONSTRAIN_RANKS>>();
  std::printf("loss %g, then %g; zero<3> is %s\n", ddp[0], ddp[9], ddp == zero ? "equal" : "NOT EQUAL");
  return ddp == zero && ddp[9] < ddp[0] ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (ct::error const& e) {
  std::fprintf(stderr, "threw: %s\n", e.what());
  return EXIT_FAILURE;
}
