// The instructions of tensor cores and asynchronous copies against what they should do, which the host works out for
// itself, and against their twins.

#include <constrain/constrain.hpp>
#include <constrain/device/cuda/ptx.cuh>
#include <doctest/doctest.h>

#include "cuda/probe.cuh"

#include <cmath>
#include <cstdio>

namespace ct = constrain;
using namespace constrain::test;

namespace {

struct four_words {
  std::uint32_t of[4];
};

static __global__ void load_kernel(std::uint16_t const* x, four_words* to) {
  alignas(16) __shared__ std::uint16_t tile[4][8][8];
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += 32) tile[i / 64][i / 8 % 8][i % 8] = x[i];
  __syncthreads();
  auto const* const row = &tile[threadIdx.x / 8][threadIdx.x % 8][0];
  std::uint32_t words[4];
  ct::ptx::load_matrices(words, row);
  for (int j = 0; j < 4; ++j) to[threadIdx.x].of[j] = words[j];
  ct::ptx::twin::load_matrices(words, row);
  for (int j = 0; j < 4; ++j) to[32 + threadIdx.x].of[j] = words[j];
  ct::ptx::load_transposed_matrices(words, row);
  for (int j = 0; j < 4; ++j) to[64 + threadIdx.x].of[j] = words[j];
  ct::ptx::twin::load_transposed_matrices(words, row);
  for (int j = 0; j < 4; ++j) to[96 + threadIdx.x].of[j] = words[j];
}

// D = C + A B, A [16, 16] and B^T [8, 16] row-major, by the instruction and by its twin.
template <class real> static __global__ void multiply_kernel(real const* a, real const* b, float const* c, float* d) {
  alignas(16) __shared__ real a_tile[16][16];
  alignas(16) __shared__ real b_tile[16][16]; // the upper half is not used
  int const lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = a[i], b_tile[i / 16][i % 16] = b[i % 128];
  __syncthreads();
  std::uint32_t left[4], right[4];
  ct::ptx::load_matrices(left, &a_tile[lane % 16][lane / 16 * 8]);
  ct::ptx::load_matrices(right, &b_tile[lane % 8][lane / 8 % 2 * 8]);
  std::uint32_t const columns[] = {right[0], right[1]};
  for (int which = 0; which < 2; ++which) {
    float sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
    if (which == 0) ct::ptx::multiply_add<real>(sum, left, columns);
    else ct::ptx::twin::multiply_add<real>(sum, left, columns);
    for (int i = 0; i < 4; ++i) d[128 * which + (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
  }
}

/// Three stages in turn; the last copy of every stage has 6 valid bytes.
static __global__ void copy_kernel(float const* from, int stages, float* to) {
  alignas(16) __shared__ float tile[3][32][4];
  int const lane = static_cast<int>(threadIdx.x);
  auto const begin = [&](int stage) {
    if (stage < stages) ct::ptx::copy_async(tile[stage % 3][lane], from + (stage * 32 + lane) * 4, lane == 31 ? 8 : 16);
    ct::ptx::commit_copies();
  };
  begin(0), begin(1);
  for (int stage = 0; stage < stages; ++stage) {
    begin(stage + 2);
    ct::ptx::wait_for_copies<2>();
    __syncthreads();
    for (int i = 0; i < 4; ++i) to[(stage * 32 + lane) * 4 + i] = tile[stage % 3][31 - lane][i];
    __syncthreads();
  }
}

static __global__ void shuffle_kernel(int const* x, int* to) {
  int sum = x[threadIdx.x];
  for (int other = 1; other < 32; other *= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, other);
  to[threadIdx.x] = sum;
  to[32 + threadIdx.x] = __shfl_sync(0xFFFFFFFF, x[threadIdx.x], static_cast<int>(threadIdx.x) * 7 % 32);
  to[64 + threadIdx.x] = __shfl_down_sync(0xFFFFFFFF, x[threadIdx.x], 5);
}

/// The instruction's results, and its twin's, of D = C + A B on values in [-1, 1) or on small integers.
template <class real> struct multiplied {
  std::vector<real> a = std::vector<real>(256), b = std::vector<real>(128);
  std::vector<float> c = std::vector<float>(128), d;

  multiplied(unsigned seed, bool integers) {
    std::mt19937 random(seed);
    auto const draw = [&] {
      return integers ? static_cast<float>(static_cast<int>(random() % 17) - 8)
                      : static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
    };
    for (auto& x : a) x = draw();
    for (auto& x : b) x = draw();
    for (auto& x : c) x = integers ? draw() : 0;
    probe p;
    auto *const on_a = p.to_device(a), *const on_b = p.to_device(b);
    auto* const on_c = p.to_device(c);
    auto* const on_d = p.room<float>(256);
    p.run(32, multiply_kernel<real>, static_cast<real const*>(on_a), static_cast<real const*>(on_b),
          static_cast<float const*>(on_c), on_d);
    d = p.from_device(on_d, 256);
  }
  /// The largest distance of an element of D from the sum in double, and of that relative to its bound.
  std::pair<double, double> distance(int which) const {
    double most = 0, of_bound = 0;
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        double sum = at(c, row * 8 + column), size = std::abs(sum);
        for (int k = 0; k < 16; ++k) {
          auto const term = static_cast<double>(at(a, row * 16 + k)) * static_cast<double>(at(b, column * 16 + k));
          sum += term, size += std::abs(term);
        }
        auto const off = std::abs(sum - static_cast<double>(at(d, 128 * which + row * 8 + column)));
        if (!(off <= most)) most = off; // a NaN stays
        if (!(off / size <= of_bound)) of_bound = off / size;
      }
    return {most, of_bound};
  }

private:
  template <class T> static double at(std::vector<T> const& x, int i) {
    return static_cast<double>(static_cast<float>(x[static_cast<std::size_t>(i)]));
  }
};

template <class real> void tensor_cores_multiply(char const* name) {
  for (unsigned seed = 0; seed < 20; ++seed)
    for (int which = 0; which < 2; ++which) CHECK(multiplied<real>(seed, true).distance(which).first == 0);
  double largest[2]{};
  for (unsigned seed = 0; seed < 20; ++seed)
    for (int which = 0; which < 2; ++which) {
      auto const off = multiplied<real>(seed, false).distance(which).second;
      CHECK(off <= 0x1p-20);
      largest[which] = std::max(largest[which], off);
    }
  std::printf("distance of multiply_add %s from exact sums, relative to the sum of |a b|: %.2e, its twin %.2e\n", name,
              largest[0], largest[1]);
}

} // namespace

TEST_CASE("matrices are loaded as the PTX ISA lays their fragments out") {
  std::vector<std::uint16_t> x(256);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i * 257);
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<four_words>(128);
  p.run(32, load_kernel, from, to);
  auto const words = p.from_device(to, 128);
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 4; ++j) {
      auto const element = [&](int row, int column) {
        return std::uint32_t{x[static_cast<std::size_t>(64 * j + 8 * row + column)]};
      };
      int const first = lane % 4 * 2, line = lane / 4;
      auto const plain = element(line, first) | element(line, first + 1) << 16;
      auto const transposed = element(first, line) | element(first + 1, line) << 16;
      CAPTURE(lane);
      CAPTURE(j);
      auto const at = [&](int which) { return words[static_cast<std::size_t>(32 * which + lane)].of[j]; };
      CHECK(at(0) == plain);
      CHECK(at(1) == plain);
      CHECK(at(2) == transposed);
      CHECK(at(3) == transposed);
    }
}

TEST_CASE("tensor cores multiply: small integers exactly, random numbers within 2^-20 of the sum of |a b|") {
  tensor_cores_multiply<ct::bfloat16>("bf16");
  tensor_cores_multiply<ct::float16>("fp16");
}

TEST_CASE("asynchronous copies arrive in order of their batches, and bytes that are not valid are zeros") {
  std::vector<float> x(7 * 128);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<float>(x.size());
  p.run(32, copy_kernel, static_cast<float const*>(from), 7, to);
  auto const copied = p.from_device(to, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const lane = 31 - i / 4 % 32;
    CAPTURE(i);
    CHECK(copied[i] == (lane == 31 && i % 4 >= 2 ? 0 : x[i / 128 * 128 + lane * 4 + i % 4]));
  }
}

TEST_CASE("lanes of a warp exchange values") {
  std::vector<int> x(32);
  for (int i = 0; i < 32; ++i) x[static_cast<std::size_t>(i)] = i * i;
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<int>(96);
  p.run(32, shuffle_kernel, from, to);
  auto const got = p.from_device(to, 96);
  for (int i = 0; i < 32; ++i) {
    auto const at = [&](int which) { return got[static_cast<std::size_t>(32 * which + i)]; };
    CHECK(at(0) == 31 * 32 * 63 / 6);
    CHECK(at(1) == (i * 7 % 32) * (i * 7 % 32));
    CHECK(at(2) == (i + 5 < 32 ? (i + 5) * (i + 5) : i * i));
  }
}

#if defined(CONSTRAIN_ON_HOST)
namespace {

static __global__ void hasty_kernel(float const* from, float* to) {
  alignas(16) __shared__ float tile[32][4];
  ct::ptx::copy_async(tile[threadIdx.x], from + threadIdx.x * 4);
  ct::ptx::commit_copies();
  for (int i = 0; i < 4; ++i) to[threadIdx.x * 4 + i] = tile[threadIdx.x][i];
  ct::ptx::wait_for_copies<0>();
}

} // namespace

TEST_CASE("a copy that is read before its wait is NaN on the stand-in, in most cases") {
  std::vector<float> const x(128, 1);
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<float>(128);
  p.run(32, hasty_kernel, static_cast<float const*>(from), to);
  int missing = 0;
  for (auto const value : p.from_device(to, 128)) missing += std::isnan(value) ? 1 : 0;
  CHECK(missing > 32);
  CHECK(missing < 128);
}
#endif
