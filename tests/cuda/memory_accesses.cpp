// The memory accesses of kernels: how many sectors of global memory a warp's requests touch, and how many transactions
// its requests to shared memory take. The least of both is what the bytes need, side by side.

#include "cuda/on_host/stand_in/accesses.hpp"
#include "cuda/stand_in/planted.hpp"
#include "cuda/tasks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Thread i reads word first + distance * i, and writes it to its own place.
static __global__ void read_words_kernel(float const* from, int first, int distance, float* to) {
  to[threadIdx.x] = from[first + distance * static_cast<int>(threadIdx.x)];
}
/// The same from shared memory.
static __global__ void read_shared_words_kernel(int distance, float* to) {
  __shared__ float words[32 * 33];
  for (int i = 0; i < 33; ++i) words[i * 32 + static_cast<int>(threadIdx.x)] = 1;
  __syncthreads();
  to[threadIdx.x] = words[distance * static_cast<int>(threadIdx.x)];
}
/// Thread i reads 16 bytes of shared memory, 16 * distance * i bytes from the beginning.
static __global__ void read_shared_packs_kernel(int distance, float* to) {
  __shared__ ct::stored_pack<4, float> packs[64];
  packs[threadIdx.x] = packs[threadIdx.x + 32] = {};
  __syncthreads();
  ct::store_stored(packs[distance * static_cast<int>(threadIdx.x)], to + 4 * threadIdx.x);
}

std::map<std::string, on_host::access_totals> by_kernel(bool is_shared) {
  std::map<std::string, on_host::access_totals> all;
  for (auto const& place : on_host::counted_accesses())
    if (place.is_shared == is_shared) all[place.kernel] += place.totals;
  return all;
}
struct figures {
  std::int64_t cost, least;
  bool operator==(figures const&) const = default;
};
/// The cost of a kernel that one warp runs.
template <class... parameters, class... arguments>
figures cost_of(bool is_shared, void (*kernel)(parameters...), arguments... a) {
  planted::stream const on;
  on_host::count_accesses();
  planted::start(on, 1, 32, kernel, a...);
  cudaDeviceSynchronize();
  auto const all = by_kernel(is_shared);
  REQUIRE(all.size() == 1);
  return {all.begin()->second.cost, all.begin()->second.least};
}

/// One step of a model whose rows are multiples of 16 bytes.
template <class... parts> void count_step(ct::run_options const& options) {
  ct::trainer<parts..., device_policy> t({}, options);
  losses_of(t, 1);
}
using small_gpt = gpt<1, 2, 128, 256, 64, 2>;
using small_llama = ct::task<
    ct::llama{
        .layers = 1, .heads = 4, .key_value_heads = 2, .width = 128, .hidden = 256, .vocabulary = 256, .context = 64},
    ct::causal_lm, ct::micro_batch{.sequences = 2}>;

// In 16-bit precisions, these kernels have elements in fp32 beside 8 elements of 16 bits: weights of norms and their
// gradients, rows of an embedding's gradient, and rotary tables. A thread reads its 8 fp32 elements in two accesses,
// and each of both touches all sectors. (They could be read by 4; then the accesses to 16-bit elements have 8 bytes.)
std::vector<std::string> const with_fp32_beside_16_bits{
    "elements_kernel",   "embedding_gradient_kernel", "held_layer_norm_gradient_kernel",
    "layer_norm_kernel", "rms_norm_kernel",           "rms_norm_gradient_kernel"};

} // namespace

TEST_CASE("the counts of planted accesses") {
  planted::device_array<float> from{4096}, to{128};
  auto const words = [&](int first, int distance) {
    return cost_of(false, &read_words_kernel, static_cast<float const*>(from.data), first, distance, to.data);
  };
  CHECK(words(0, 1) == figures{4 + 4, 4 + 4});
  CHECK(words(1, 1) == figures{5 + 4, 4 + 4});
  CHECK(words(0, 2) == figures{8 + 4, 4 + 4});
  CHECK(words(0, 32) == figures{32 + 4, 4 + 4});
  CHECK(words(7, 0) == figures{1 + 4, 1 + 4});
  auto const shared_words = [&](int distance) { return cost_of(true, &read_shared_words_kernel, distance, to.data); };
  CHECK(shared_words(1) == figures{33 + 1, 33 + 1});
  CHECK(shared_words(0) == figures{33 + 1, 33 + 1});
  CHECK(shared_words(2) == figures{33 + 2, 33 + 1});
  CHECK(shared_words(32) == figures{33 + 32, 33 + 1});
  CHECK(shared_words(33) == figures{33 + 1, 33 + 1});
  auto const shared_packs = [&](int distance) { return cost_of(true, &read_shared_packs_kernel, distance, to.data); };
  auto const dense = shared_packs(1), spread = shared_packs(2);
  CHECK(dense.cost == dense.least);
  CHECK(spread.least == dense.least);
  CHECK(spread.cost == dense.cost + 4); // one for each turn
}

TEST_CASE("memory accesses of a step") {
  on_host::count_accesses();
  count_step<small_gpt, ct::precision::bf16>({.clip_norm = 1, .dropout = 0.1});
  count_step<small_llama, ct::precision::fp16, ct::optimizer::quantized<ct::optimizer::adamw>>({});
  auto const global = by_kernel(false), shared = by_kernel(true);
  CHECK(global.size() >= 20);
  CHECK(shared.size() >= 11);
  for (auto const& [kernel, t] : global) {
    std::printf("%-32s %6lld requests to global memory, %6lld sectors, %.3f of the least\n", kernel.c_str(),
                static_cast<long long>(t.requests), static_cast<long long>(t.cost), t.ratio());
    CAPTURE(kernel);
    bool const beside = std::count(with_fp32_beside_16_bits.begin(), with_fp32_beside_16_bits.end(), kernel) > 0;
    CHECK(t.ratio() <= (beside ? 2 : 1.1));
  }
  for (auto const& [kernel, t] : shared) {
    std::printf("%-32s %6lld requests to shared memory, %6lld transactions, %.3f of the least\n", kernel.c_str(),
                static_cast<long long>(t.requests), static_cast<long long>(t.cost), t.ratio());
    CAPTURE(kernel);
    // Its threads reach a place of the code at different times, so accesses of different iterations are one request.
    if (kernel == "embedding_gradient_kernel") CHECK(t.ratio() <= 1.1);
    else CHECK(t.cost == t.least);
  }
}
