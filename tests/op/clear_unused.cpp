#include "op/call_kernel.hpp"
#include "op/tensor_group.hpp"

#include <constrain/op/clear_unused/cpu.hpp>

#include <algorithm>
#include <mutex>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::clear_unused;
static_assert(rule::infer(types({f32(shape(4, 5))})).outputs[0] == f32(shape(4, 5)));
static_assert(ct::info_of<rule>.gradient == nullptr);
static_assert(ct::info_of<rule>.guarded && ct::info_of<rule>.layouts.by_elements());

constexpr rule::options options{.elements = 20, .period = 20, .unused = 6};

/// 20 elements, of which those from `used` on are 0.
template <class real> std::vector<real> range_of(std::int64_t used) {
  auto values = array<real>::random(shape(20), 1).values();
  std::fill(values.begin() + used, values.end(), real(0));
  return values;
}

} // namespace

TEST_CASE_TEMPLATE("clear_unused: only the last rank has unused rows", real, float, double, ct::bfloat16) {
  std::mutex together;
  tensor_group::run(3, [&](ct::step_parameters const& parameters) {
    array<real> x(shape(10, 2), range_of<real>(20));
    call_kernel<rule>(ct::call{ct::pack(options), parameters}, x.in(), x.out());
    std::lock_guard const lock(together);
    CHECK(x.values() == range_of<real>(parameters.tensor->rank() == 2 ? 14 : 20));
  });
}

TEST_CASE("clear_unused: shards of a range") {
  constexpr int shards = 3, length = 8; // the last shard has padding
  auto const before = range_of<float>(20), expected = range_of<float>(14);
  std::mutex together;
  tensor_group::run(shards, [&](ct::step_parameters const& of_shard) {
    auto const first = of_shard.tensor->rank() * length, count = std::min(length, 20 - first);
    tensor_group::run(2, [&](ct::step_parameters parameters) {
      parameters.zero = of_shard.tensor;
      if (parameters.tensor->rank() == 0) return;
      array<float> x{shape(length)};
      std::copy_n(before.begin() + first, count, x.out().data);
      call_kernel<rule>(ct::call{ct::pack(options), parameters}, x.in(), x.out());
      std::lock_guard const lock(together);
      CHECK(std::equal(expected.begin() + first, expected.begin() + first + count, x.values().begin()));
    });
  });
}

TEST_CASE("clear_unused: of a divided dimension 1, the last columns of every row, also in shards") {
  constexpr rule::options by_columns{.elements = 20, .period = 5, .unused = 2};
  auto const before = range_of<float>(20);
  std::mutex together;
  for (int const length : {20, 8}) // the full range; three shards, the last with padding
    tensor_group::run((20 + length - 1) / length, [&](ct::step_parameters const& of_shard) {
      auto const first = of_shard.tensor->rank() * length, count = std::min(length, 20 - first);
      tensor_group::run(2, [&](ct::step_parameters parameters) {
        parameters.zero = of_shard.tensor;
        if (parameters.tensor->rank() == 0) return;
        array<float> x{shape(length)};
        std::copy_n(before.begin() + first, count, x.out().data);
        call_kernel<rule>(ct::call{ct::pack(by_columns), parameters}, x.in(), x.out());
        std::lock_guard const lock(together);
        for (int i = 0; i < count; ++i) {
          auto const element = static_cast<std::size_t>(first + i);
          CHECK(x[static_cast<std::size_t>(i)] == (element % 5 < 3 ? before[element] : 0.0f));
        }
      });
    });
}

TEST_CASE("clear_unused: every tensor of a stack, in full ranges and in shards") {
  std::mutex together;
  for (std::int64_t const length : {20, 10}) { // one shard, and two
    shape const one(length);
    auto const shards = static_cast<int>(20 / length);
    tensor_group::run(shards, [&](ct::step_parameters const& of_shard) {
      tensor_group::run(2, [&](ct::step_parameters parameters) {
        parameters.zero = of_shard.tensor;
        if (parameters.tensor->rank() == 0) return;
        std::vector<float> x(static_cast<std::size_t>(3 * length), 1.0f);
        auto const count = static_cast<std::int64_t>(x.size());
        call_kernel<rule>(ct::call{ct::pack(options), parameters}, ct::tensor<float const>{x.data(), &one, count},
                          ct::tensor<float>{x.data(), &one, count});
        std::lock_guard const lock(together);
        for (std::int64_t i = 0; i < count; ++i)
          CHECK(x[static_cast<std::size_t>(i)] == (of_shard.tensor->rank() * length + i % length < 14 ? 1.0f : 0.0f));
      });
    });
  }
}
