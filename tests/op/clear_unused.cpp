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

namespace {

/// Checks the kernel on the last rank of a tensor group, which has stacks of two tensors of 20 elements in shards of
/// `length` elements. `is_used`: whether an element of the 20 is used.
template <class function> void check_shards(rule::options const& o, std::int64_t length, function const& is_used) {
  std::mutex together;
  shape const one(length);
  tensor_group::run(static_cast<int>((20 + length - 1) / length), [&](ct::step_parameters const& of_shard) {
    tensor_group::run(2, [&](ct::step_parameters parameters) {
      parameters.zero = of_shard.tensor;
      if (parameters.tensor->rank() == 0) return;
      std::vector<float> x(static_cast<std::size_t>(2 * length), 1.0f);
      call_kernel<rule>(ct::call{ct::pack(o), parameters}, ct::tensor<float const>{x.data(), &one, 2 * length},
                        ct::tensor<float>{x.data(), &one, 2 * length});
      std::lock_guard const lock(together);
      for (std::int64_t i = 0; i < 2 * length; ++i)
        if (auto const element = of_shard.tensor->rank() * length + i % length; element < 20) // the rest is padding
          CHECK(x[static_cast<std::size_t>(i)] == (is_used(element) ? 1.0f : 0.0f));
    });
  });
}

} // namespace

TEST_CASE("clear_unused: every tensor of a stack, in one shard, in two, and in three with padding") {
  constexpr rule::options by_columns{.elements = 20, .period = 5, .unused = 2};
  for (std::int64_t const length : {20, 10, 8}) {
    check_shards(options, length, [](std::int64_t element) { return element < 14; });
    check_shards(by_columns, length, [](std::int64_t element) { return element % 5 < 3; });
  }
}
