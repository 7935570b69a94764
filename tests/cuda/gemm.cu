// GEMMs in parts, operands of any alignment, and calls that are merged into one launch.

#include "cuda/tasks.hpp"

#include <constrain/device/cuda/gemm.cuh>
#include <constrain/device/cuda/gemm_batched.cuh>
#include <constrain/device/cuda/multi_tensor.cuh>
#include <constrain/device/cuda/start_kernel.cuh>
#include <constrain/run/cuda_arena.cuh>
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ct = constrain;

namespace {

using ct::transpose;

/// Three arrays of floats in device memory, and a context for GEMMs.
class arrays {
public:
  /// Each array is 64 KiB long, or as long as given, in bytes.
  explicit arrays(std::int64_t bytes_each = 1 << 16)
      : bytes_each_(bytes_each), stream_(ct::cuda_device()),
        memory_(ct::bytes(4 * bytes_each + ct::gemm_workspace), stream_), context_(stream_, memory_.data()) {
    parameters_.context = &context_;
  }

  ct::cuda_context& context() { return context_; }
  ct::call make_call() const {
    ct::call c{none_, parameters_};
    c.scratch = memory_.data() + 4 * bytes_each_;
    return c;
  }
  float* at(int i, std::int64_t offset = 0) const {
    return reinterpret_cast<float*>(memory_.data() + begin(i)) + offset;
  }
  void write(int i, std::vector<float> const& x, std::int64_t offset = 0) {
    memory_.write(begin(i) + 4 * offset, x.data(), static_cast<std::int64_t>(4 * x.size()));
  }
  std::vector<float> read(int i, std::size_t count, std::int64_t offset = 0) const {
    std::vector<float> x(count);
    memory_.read(begin(i) + 4 * offset, x.data(), static_cast<std::int64_t>(4 * count));
    return x;
  }

private:
  std::int64_t begin(int i) const { return (1 + i) * bytes_each_; }

  std::int64_t bytes_each_;
  ct::cuda_stream stream_;
  ct::cuda_arena memory_;
  ct::cuda_context context_;
  ct::attributes none_;
  ct::step_parameters parameters_;
};

/// The operands of a call to one kernel, and of another.
template <int count> struct operands { std::int64_t i[count]; };
using small = operands<1>;
using large = operands<6>;

/// Writes what the device receives of merged calls: a thread per call.
template <class entry> static __global__ void entries_kernel(ct::multi_tensor<entry> all, float* to) {
  to[threadIdx.x] = static_cast<int>(threadIdx.x) < all.count ? static_cast<float>(all.entries[threadIdx.x].i[0]) : -1;
}

/// Small integers, whose sums are exact in any order.
std::vector<float> integers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (auto& each : x) each = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return x;
}

} // namespace

TEST_CASE("a GEMM in parts gives the bits of one GEMM, whatever the alignment of its operands") {
  arrays on_device;
  for (auto const& e : {ct::gemm_extents{9, 13, 17}, {40, 8, 24}, {3, 64, 5}})
    for (int const flags : {0, 1, 2, 3})
      for (int const shift : {0, 1, 2, 4}) {
        auto const ta = (flags & 1) != 0 ? transpose::yes : transpose::no;
        auto const tb = (flags & 2) != 0 ? transpose::yes : transpose::no;
        on_device.write(0, integers(e.m * e.k, 1), shift);
        on_device.write(1, integers(e.k * e.n, 2), shift);
        auto const run = [&](bool adds, ct::gemm_limits const& limits) {
          on_device.write(2, integers(e.m * e.n, 3), shift);
          ct::gemm(on_device.make_call(), ta, tb, e, on_device.at(0, shift), on_device.at(1, shift), adds,
                   on_device.at(2, shift), nullptr, limits);
          return on_device.read(2, static_cast<std::size_t>(e.m * e.n), shift);
        };
        CAPTURE(flags);
        CAPTURE(shift);
        for (bool const adds : {false, true}) {
          auto const whole = run(adds, {});
#if defined(CONSTRAIN_ON_HOST)
          auto const before = on_host::gemms;
#endif
          CHECK(run(adds, {.elements = 70}) == whole);
          CHECK(ct::gemm_parts(ta, tb, e, {.elements = 70}) > 1);
#if defined(CONSTRAIN_ON_HOST)
          CHECK(on_host::gemms - before == ct::gemm_parts(ta, tb, e, {.elements = 70}));
#endif
        }
      }
}

TEST_CASE("the rest of padded rows is multiplied on its own") {
  constexpr std::int64_t odd = 61, padded = 64;
  arrays on_device;
  constexpr ct::gemm_limits limits{.multiplications = 1};
  struct gemm_of_head {
    transpose a, b;
    ct::gemm_extents extents;
  };
  gemm_of_head const of_head[] = {{transpose::no, transpose::yes, {.m = 20, .n = odd, .k = 40, .ldc = padded}},
                                  {transpose::no, transpose::no, {.m = 20, .n = 40, .k = odd, .lda = padded}},
                                  {transpose::yes, transpose::no, {.m = odd, .n = 40, .k = 20, .lda = padded}}};
  for (auto const& [ta, tb, e] : of_head) {
    CAPTURE(e.k);
    auto const contiguous = ct::with_leading_dimensions(ta, tb, {e.m, e.n, e.k});
    auto const rows_of_a = ta == transpose::yes ? e.k : e.m, columns_of_a = e.m * e.k / rows_of_a;
    auto const a = integers(e.m * e.k, 1);
    on_device.write(1, integers(e.k * e.n, 2));
    auto const run = [&](bool adds, ct::gemm_extents const& extents) {
      auto const lda = extents.lda == 0 ? columns_of_a : extents.lda, ldc = extents.ldc == 0 ? e.n : extents.ldc;
      std::vector<float> in_rows(static_cast<std::size_t>(rows_of_a * lda), std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t i = 0; i < e.m * e.k; ++i)
        in_rows[static_cast<std::size_t>(i / columns_of_a * lda + i % columns_of_a)] = a[static_cast<std::size_t>(i)];
      on_device.write(0, in_rows);
      on_device.write(2, std::vector<float>(static_cast<std::size_t>(e.m * ldc), 5));
      ct::gemm(on_device.make_call(), ta, tb, extents, on_device.at(0), on_device.at(1), adds, on_device.at(2), nullptr,
               limits);
      auto const y = on_device.read(2, static_cast<std::size_t>(e.m * ldc));
      std::vector<float> result;
      std::int64_t written_gaps = 0;
      for (std::int64_t i = 0; i < e.m * ldc; ++i)
        if (i % ldc < e.n) result.push_back(y[static_cast<std::size_t>(i)]);
        else written_gaps += y[static_cast<std::size_t>(i)] != 5;
      CHECK(written_gaps == 0);
      return result;
    };
    CHECK(ct::gemm_parts(ta, tb, e, limits) == 2);
    CHECK(ct::gemm_parts(ta, tb, contiguous, limits) == 1);
    for (bool const adds : {false, true}) CHECK(run(adds, e) == run(adds, contiguous));
  }
}

TEST_CASE("a GEMM adds a bias once, in parts too") {
  arrays on_device;
  constexpr std::int64_t place_of_bias = 8192; // behind the first operand
  for (auto const& e : {ct::gemm_extents{9, 12, 17}, {40, 8, 24}, {3, 64, 5}, {5, 13, 7}})
    for (int const flags : {0, 1, 2, 3})
      for (std::int64_t const shift : {0, 4}) {
        auto const ta = (flags & 1) != 0 ? transpose::yes : transpose::no;
        auto const tb = (flags & 2) != 0 ? transpose::yes : transpose::no;
        auto const bias = integers(e.n, 4);
        on_device.write(0, integers(e.m * e.k, 1));
        on_device.write(1, integers(e.k * e.n, 2));
        on_device.write(0, bias, place_of_bias + shift);
        auto const run = [&](bool adds, float const* b, ct::gemm_limits const& limits) {
          on_device.write(2, integers(e.m * e.n, 3));
          ct::gemm(on_device.make_call(), ta, tb, e, on_device.at(0), on_device.at(1), adds, on_device.at(2), b,
                   limits);
          return on_device.read(2, static_cast<std::size_t>(e.m * e.n));
        };
        CAPTURE(flags);
        CAPTURE(e.n);
        for (bool const adds : {false, true}) {
          auto expected = run(adds, nullptr, {});
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % static_cast<std::size_t>(e.n)];
          for (auto const& limits : {ct::gemm_limits{}, ct::gemm_limits{.elements = 70}}) {
            CHECK(ct::allows_bias(ta, tb, e, 8, limits) ==
                  (e.n % 2 == 0 && ct::part_of_gemm(ta, tb, e, limits).n % 2 == 0));
            if (ct::allows_bias(ta, tb, e, sizeof(float), limits))
              CHECK(run(adds, on_device.at(0, place_of_bias + shift), limits) == expected);
            else CHECK((e.n == 13 || limits.elements == 70));
          }
        }
      }
}

TEST_CASE("batched products of one tile and of several, in one launch and in several") {
  arrays on_device;
  struct sizes {
    std::int64_t m, n, k, products;
  };
  for (auto const& [m, n, k, products] : {sizes{3, 5, 17, 14}, {70, 5, 3, 6}, {5, 70, 3, 6}, {65, 130, 2, 2}}) {
    auto const a = integers(products * m * k, 1), b = integers(products * k * n, 2);
    on_device.write(0, a), on_device.write(1, b);
    for (std::int64_t const group : {1, 2}) {
      CAPTURE(m);
      CAPTURE(group);
      std::vector<float> expected(static_cast<std::size_t>(products * m * n), 99);
      for (std::int64_t i = 0; i < products * m * n; ++i) {
        auto const product = i / (m * n), row = i / n % m, column = i % n;
        auto& sum = expected[static_cast<std::size_t>((product / group * m + row) * n + column)];
        if (product % group == 0) sum = 0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += a[static_cast<std::size_t>((product * m + row) * k + j)] *
                 b[static_cast<std::size_t>((product * k + j) * n + column)];
      }
      for (std::int64_t const most : {1, 4, 65535}) {
        on_device.write(2, std::vector<float>(expected.size(), 99));
        ct::gemm_batched(on_device.context(), products, m, n, k, 1, on_device.at(0), {k, false, 1, 0, m * k},
                         on_device.at(1), {n, false, 1, 0, k * n}, on_device.at(2), {n, false, 1, 0, m * n, group},
                         most);
        CHECK(on_device.read(2, expected.size()) == expected);
      }
    }
  }
}

TEST_CASE("merged calls begin anew, whatever calls to another kernel or an exception have left") {
  arrays on_device;
  auto c = on_device.make_call();
  auto const received = [&]<class entry>(ct::multi_tensor<entry> const& all) {
    ct::cuda_launch(on_device.context(), 1, 4, entries_kernel<entry>, all, on_device.at(0));
    return on_device.read(0, 4);
  };
  auto const add = [&]<class entry>(int before, entry const& e) -> ct::multi_tensor<entry>& {
    c.merged_before = before;
    auto& all = on_device.context().pending<ct::multi_tensor<entry>>(c);
    all.add(c, e);
    return all;
  };
  for (int i = 0; i < ct::multi_tensor<large>::capacity; ++i) add(i, large{{-1, -1, -1, -1, -1, -1}});
  for (int i = 0; i < 3; ++i) {
    auto const& all = add(i, small{{i}}); // the calls before were never launched
    CHECK(all.count == i + 1);
    CHECK(all.entries[i].i[0] == i);
    CHECK(all.entries[0].i[0] == 0);
    CHECK(received(all) == std::vector<float>{0, i < 1 ? -1.f : 1, i < 2 ? -1.f : 2, -1});
  }
  auto const& all = add(0, large{{7}});
  CHECK(all.count == 1);
  CHECK(all.entries[0].i[0] == 7);
  CHECK(received(all) == std::vector<float>{7, -1, -1, -1});
}
