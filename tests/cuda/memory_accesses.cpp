// The memory accesses of kernels: how many sectors of global memory a warp's requests touch, and how many transactions
// its requests to shared memory take. The least of both is what the bytes need, side by side.

#include "cuda/on_host/stand_in/accesses.hpp"
#include "cuda/stand_in/planted.hpp"
#include "cuda/tasks.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

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
/// Thread i reads `n` elements in packs.
template <int n> static __global__ void read_pack_kernel(float const* from, float* to) {
  float values[n];
  ct::load_pack(from + n * threadIdx.x, values);
  to[threadIdx.x] = values[0] + values[n - 1];
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

/// Exchanges the halves of its rows.
struct exchanged_halves {
  constexpr ct::value operator()(ct::value ids) const {
    auto const x = ct::embedding("token", ids, {.vocabulary = 64, .width = 128});
    return ct::linear("head", ct::concatenate({ct::slice(x, 2, 64, 64), ct::slice(x, 2, 0, 64)}, 2), 64);
  }
};
using small_halves = ct::task<exchanged_halves{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 32}>;

/// The cost of the sums of the columns of a matrix [64, columns], read by n elements.
template <int n, class real> void check_column_sums(std::int64_t columns) {
  planted::stream const on;
  planted::device_array<real> x(static_cast<std::size_t>(64 * columns)), sums(static_cast<std::size_t>(2 * columns));
  ct::elements_of_matrix<n, real, real> const f{x.data, columns};
  on_host::count_accesses();
  planted::start(on, dim3(static_cast<unsigned>((columns + 32 * n - 1) / (32 * n)), 2), ct::cuda_threads,
                 &ct::column_sums_kernel<n, real, ct::elements_of_matrix<n, real, real>>, f, ct::row_partition(64, 2),
                 columns, sums.data);
  cudaDeviceSynchronize();
  for (auto const& place : on_host::counted_accesses()) {
    CAPTURE(place.is_shared);
    CHECK(place.totals.cost == place.totals.least);
  }
}

void print(char const* memory, char const* unit, std::map<std::string, on_host::access_totals> const& all) {
  for (auto const& [kernel, t] : all)
    std::printf("%-32s %6lld requests to %s, %6lld %s, %.3f of the least\n", kernel.c_str(),
                static_cast<long long>(t.requests), memory, static_cast<long long>(t.cost), unit, t.ratio());
}

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
  auto const* const packs = static_cast<float const*>(from.data);
  CHECK(cost_of(false, &read_pack_kernel<2>, packs, to.data) == figures{8 + 4, 8 + 4});
  CHECK(cost_of(false, &read_pack_kernel<4>, packs, to.data) == figures{16 + 4, 16 + 4});
  CHECK(cost_of(false, &read_pack_kernel<8>, packs, to.data) == figures{32 + 32 + 4, 16 + 16 + 4}); // in two accesses
  auto const shared_packs = [&](int distance) { return cost_of(true, &read_shared_packs_kernel, distance, to.data); };
  auto const dense = shared_packs(1), spread = shared_packs(2);
  CHECK(dense.cost == dense.least);
  CHECK(spread.least == dense.least);
  CHECK(spread.cost == dense.cost + 4); // one for each turn
}

// round_stochastically (precision::pure_bf16) is not counted: a thread draws the bits of 8 consecutive elements at
// once, so that it loads 8 of fp32 in two requests, each of which touches the sectors of both.
TEST_CASE("memory accesses of a step") {
  on_host::count_accesses();
  count_step<small_gpt, ct::precision::bf16>({.clip_norm = 1, .dropout = 0.1});
  count_step<small_llama, ct::precision::fp16, ct::optimizer::quantized<ct::optimizer::adamw>>({});
  count_step<small_gpt, ct::precision::bf16, ct::optimizer::muon<>>({});
  count_step<small_halves, ct::precision::bf16>({});
  count_step<small_gpt, ct::precision::bf16, ct::optimizer::states_in<ct::dtype::bf16, ct::optimizer::lion>>({});
  for (auto const& place : on_host::counted_accesses()) {
    CAPTURE(place.kernel);
    CAPTURE(place.is_shared);
    CAPTURE(place.totals.cost);
    CAPTURE(place.totals.least);
    // Its threads skip iterations, so that accesses of different iterations are one request.
    bool const is_exact = place.kernel != "embedding_gradient_kernel";
    if (place.is_shared && is_exact) CHECK(place.totals.cost == place.totals.least);
    // One value that all threads read may cross the border of two sectors.
    bool const is_one_value = place.totals.least == place.totals.requests;
    if (!place.is_shared && !is_one_value) CHECK(place.totals.ratio() <= 1.1);
  }
  auto const global = by_kernel(false), shared = by_kernel(true);
  CHECK(global.size() >= 20);
  CHECK(shared.size() >= 11);
  print("global memory", "sectors", global);
  print("shared memory", "transactions", shared);
  for (auto const& [kernel, t] : global) {
    CAPTURE(kernel);
    CHECK(t.ratio() <= 1.1);
  }
  CHECK(shared.at("embedding_gradient_kernel").ratio() <= 1.01);
}

TEST_CASE("memory accesses of the softmax in attention::reference") { // its GEMMs are not tuned
  on_host::count_accesses();
  count_step<small_gpt, ct::precision::bf16, ct::attention::reference>({});
  auto const global = by_kernel(false);
  for (auto const* kernel : {"softmax_kernel", "softmax_gradient_kernel"}) {
    CAPTURE(std::string(kernel));
    CHECK(global.at(kernel).ratio() <= 1.1);
  }
}

TEST_CASE("sums of columns have no bank conflicts") {
  check_column_sums<4, float>(256);
  check_column_sums<2, float>(192);
  check_column_sums<1, float>(96);
  check_column_sums<2, double>(192);
  check_column_sums<1, double>(96);
}
