// The squared norm of a gradient in shards has the bits of the full gradient's.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// One of several ranks, without the others.
class one_of final : public ct::communicator {
public:
  one_of(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(std::byte*, std::int64_t const*, std::int64_t const*) override {}
  void all_to_all(std::byte const*, std::int64_t const*, std::int64_t const*, std::byte*, std::int64_t) override {}
  void barrier() override {}
  std::unique_ptr<ct::communicator> groups_of(int) override { return nullptr; }
  std::unique_ptr<ct::communicator> strided_groups(int) override { return nullptr; }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }
  bool all_failed_or_exited() override { return true; }

private:
  int rank_, size_;
};

/// An array in device memory.
template <class type> struct device_array {
  explicit device_array(std::vector<type> const& values) : count(static_cast<std::int64_t>(values.size())) {
    ct::cuda_check(cudaMalloc(reinterpret_cast<void**>(&data), values.size() * sizeof(type)), "allocate");
    ct::cuda_check(cudaMemcpy(data, values.data(), values.size() * sizeof(type), cudaMemcpyHostToDevice), "copy");
    ct::cuda_check(cudaDeviceSynchronize(), "wait for the copy"); // the kernels' stream does not wait for it
  }
  device_array(device_array const&) = delete;
  ~device_array() { cudaFree(data); }
  std::vector<type> read() const {
    std::vector<type> values(static_cast<std::size_t>(count));
    ct::cuda_check(cudaDeviceSynchronize(), "run the kernels");
    ct::cuda_check(cudaMemcpy(values.data(), data, values.size() * sizeof(type), cudaMemcpyDeviceToHost), "copy");
    return values;
  }
  ct::tensor<type> view(ct::shape const& s) const { return {data, &s, count}; }
  ct::tensor<type const> read_only(ct::shape const& s) const { return {data, &s, count}; }

  type* data = nullptr;
  std::int64_t count;
};

/// The squares of a stack of `tensors` gradients, of the full one and of `shards` shards; element `index` of two.
template <class stored> void compare(std::int64_t elements, std::int64_t tensors, int shards) {
  CAPTURE(elements);
  CAPTURE(tensors);
  CAPTURE(shards);
  ct::cuda_stream const stream{ct::cuda_device()};
  device_array<std::byte> const parameters(std::vector<std::byte>(target::parameter_bytes)),
      scratch(std::vector<std::byte>(1 << 16));
  ct::cuda_context context(stream, parameters.data);
  ct::step_parameters step{.context = &context};
  std::vector<stored> gradient(static_cast<std::size_t>(elements * tensors));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = stored(static_cast<float>(i * 7 % 101) * 0.013f);
  ct::shape const one(elements), two(2);
  ct::attributes const none{};

  ct::call_of<ct::op::gradient_norm_squared> in_full{ct::call{none, step}};
  in_full.scratch = scratch.data;
  in_full.options = {.index = 1, .gradients = 2};
  device_array<double> const squares({7, 7}), of_shards({7, 7});
  device_array<stored> const full(gradient);
  ct::kernel<ct::op::gradient_norm_squared, target>::run(in_full, full.read_only(one), squares.view(two));

  ct::shard_map const map{elements, shards};
  ct::shape const shard(map.stored()), of_chunks(tensors, ct::norm_chunks(map.stored())),
      all_chunks(shards, tensors, ct::norm_chunks(map.stored()));
  std::vector<double> gathered;
  for (int r = 0; r < shards; ++r) {
    one_of group(r, shards);
    step.zero = &group;
    std::vector<stored> mine(static_cast<std::size_t>(map.stored() * tensors), stored(1e9f)); // padding is not summed
    for (std::int64_t t = 0; t < tensors; ++t)
      for (std::int64_t i = 0; i < map.length(r); ++i)
        mine[static_cast<std::size_t>(t * map.stored() + i)] =
            gradient[static_cast<std::size_t>(t * elements + map.begin(r) + i)];
    device_array<stored> const part(mine);
    device_array<double> const sums(std::vector<double>(static_cast<std::size_t>(of_chunks.elements()), 7));
    ct::call_of<ct::op::chunk_squares> chunks{ct::call{none, step}};
    chunks.options = {.tensors = tensors, .stride = map.stored(), .elements = elements, .shards = shards};
    ct::kernel<ct::op::chunk_squares, target>::run(chunks, part.read_only(shard), sums.view(of_chunks));
    auto const values = sums.read();
    gathered.insert(gathered.end(), values.begin(), values.end());
  }
  device_array<double> const all(gathered);
  ct::call_of<ct::op::chunk_sum> sum{ct::call{none, step}};
  sum.options = {.index = 1, .gradients = 2};
  ct::kernel<ct::op::chunk_sum, target>::run(sum, all.read_only(all_chunks), of_shards.view(two));
  CHECK(same_bits(squares.read(), of_shards.read()));
  CHECK(squares.read()[0] == 0);
  CHECK(squares.read()[1] > 0);
}

} // namespace

TEST_CASE("the norm of shards is the norm of the full gradient") {
  for (int const shards : {1, 2, 3, 4})
    for (std::int64_t const elements : {7, 1024, 1500, 5000, 300'000}) {
      compare<float>(elements, 1, shards);
      if (elements < 10'000) compare<ct::bfloat16>(elements, 3, shards);
    }
}
