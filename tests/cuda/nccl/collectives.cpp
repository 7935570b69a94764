// The collectives of nccl_group on 1 to 4 ranks: their results, element for element, the bytes that a rank sends, and
// two groups on one stream.

#include <constrain/device/cuda/nccl_ranks.cuh>
#include <constrain/op/collective/cuda.cuh>

#include "cuda/nccl/ranks.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// An array in device memory.
template <class stored> class device_array {
public:
  device_array(std::vector<stored> const& values, cudaStream_t stream) : size_(values.size()), stream_(stream) {
    ct::cuda_check(cudaMalloc(&data, bytes()), "allocate");
    ct::cuda_check(cudaMemcpyAsync(data, values.data(), bytes(), cudaMemcpyHostToDevice, stream), "copy");
  }
  device_array(device_array const&) = delete;
  ~device_array() { cudaFree(data); }
  std::vector<stored> read() const {
    std::vector<stored> values(size_);
    ct::cuda_check(cudaMemcpyAsync(values.data(), data, bytes(), cudaMemcpyDeviceToHost, stream_), "copy");
    return values;
  }
  ct::tensor<stored const> read_only(ct::shape const& s) const { return {data, &s, static_cast<std::int64_t>(size_)}; }
  ct::tensor<stored> view(ct::shape const& s) const { return {data, &s, static_cast<std::int64_t>(size_)}; }

  stored* data = nullptr;

private:
  std::size_t bytes() const { return size_ * sizeof(stored); }
  std::size_t size_;
  cudaStream_t stream_;
};

/// Element i of rank r: of different sizes, so that each order of a sum has its own rounding.
template <class stored> stored element(int rank, std::size_t i) {
  auto const k = static_cast<double>(i * 7 % 31) - 13;
  if constexpr (std::is_integral_v<stored>) return static_cast<stored>(static_cast<int>(k) * 3 + rank);
  else return static_cast<stored>(static_cast<float>((k + 0.37 * rank) * (rank % 2 == 0 ? 1000.1 : 0.0123)));
}
template <class stored> std::vector<stored> elements(int rank, std::size_t count) {
  std::vector<stored> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = element<stored>(rank, i);
  return all;
}
template <class stored> bool equal(std::vector<stored> const& a, std::vector<stored> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(stored)) == 0;
}
/// The sum over ranks of element i, in rank order, before it is rounded.
template <class stored> ct::arithmetic<stored> sum_of(int ranks, std::size_t i) {
  auto sum = static_cast<ct::arithmetic<stored>>(element<stored>(0, i));
  for (int r = 1; r < ranks; ++r) sum += static_cast<ct::arithmetic<stored>>(element<stored>(r, i));
  return sum;
}

/// What a rank needs for collectives on its device.
struct device_of_rank {
  ct::communicator& world;
  ct::current_device here{ct::cuda_device(ct::device_of_rank(-1, world))};
  ct::cuda_stream stream{here.device()};
  device_array<std::byte> parameters{std::vector<std::byte>(target::parameter_bytes), stream};
  ct::cuda_context context{stream, parameters.data};
  ct::nccl_ranks ranks;
  ct::step_parameters step{.data = &world, .zero = &world, .context = &context};

  device_of_rank(ct::communicator& all, ct::communicator& zero, bool ordered = true)
      : world(all), ranks(all, zero, 60, ordered, [] {}) {
    context.connect(ranks);
    stream.set_waiter(&ranks);
  }
};

/// Runs `f`, waits, and checks the bytes that this rank has sent.
template <class function>
void sends(device_of_rank const& d, std::string const& what, std::size_t bytes, function const& f) {
  auto const before = on_host::nccl_bytes;
  f();
  d.stream.wait_for_peers();
  auto const sent = static_cast<std::size_t>(on_host::nccl_bytes - before);
  check(sent == bytes, what + " sends " + std::to_string(sent) + " bytes, not " + std::to_string(bytes));
}

template <class stored> void all_reduces(device_of_rank const& d, std::size_t count, std::size_t exchanged) {
  auto const n = static_cast<std::size_t>(d.world.size());
  ct::shape const shape(static_cast<std::int64_t>(count)), of_buffer(static_cast<std::int64_t>(exchanged));
  device_array<stored> const y(elements<stored>(d.world.rank(), count), d.stream);
  device_array<stored> const buffer(std::vector<stored>(exchanged), d.stream);
  std::vector<stored> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<stored>(sum_of<stored>(d.world.size(), i));
  ct::call const c{ct::attributes{}, d.step};
  auto const run = [&] { ct::kernel<ct::op::all_reduce, target>::run(c, {}, y.view(shape), buffer.view(of_buffer)); };
  // Twice (n - 1) / n of the array, if all shards are equal.
  bool const even = !d.ranks.ordered() || count % (exchanged / n * n) % n == 0;
  if (even && count % n == 0) sends(d, "all_reduce", 2 * (n - 1) * count / n * sizeof(stored), run);
  else run(), d.stream.wait_for_peers();
  check(equal(y.read(), expected), "all_reduce of " + std::to_string(count));
}

template <class stored> void scatters_and_gathers(device_of_rank const& d, std::size_t count) {
  using scatter = ct::op::reduce_scatter;
  auto const ranks = d.world.size();
  auto const n = static_cast<std::int64_t>(count);
  ct::shard_map const map{n, ranks};
  auto const stored_count = static_cast<std::size_t>(map.stored());
  ct::shape const full(n), part(map.stored()), of_buffer(768);
  device_array<stored> const gradient(elements<stored>(d.world.rank(), count), d.stream);
  device_array<stored> const shard(std::vector<stored>(stored_count, stored(9)), d.stream);
  device_array<stored> const buffer(std::vector<stored>(768), d.stream);
  device_array<stored> const gathered(std::vector<stored>(count), d.stream);
  ct::call c{ct::attributes{}, d.step};
  ct::call_of<scatter> reduced{c};
  reduced.options.shards = ranks;
  ct::kernel<scatter, target>::run(reduced, gradient.read_only(full), shard.view(part), buffer.view(of_buffer));
  ct::call_of<ct::op::all_gather> whole{c};
  whole.options.chunk = map.chunk;
  ct::kernel<ct::op::all_gather, target>::run(whole, shard.read_only(part), gathered.view(full));
  d.stream.wait_for_peers();
  std::vector<stored> expected(count), mine(stored_count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<stored>(sum_of<stored>(ranks, i));
  for (std::int64_t i = 0; i < map.length(d.world.rank()); ++i)
    mine[static_cast<std::size_t>(i)] = expected[static_cast<std::size_t>(map.begin(d.world.rank()) + i)];
  check(equal(shard.read(), mine), "reduce_scatter of " + std::to_string(count));
  check(equal(gathered.read(), expected), "all_gather of " + std::to_string(count));
  reduced.adds = 1;
  ct::kernel<scatter, target>::run(reduced, gradient.read_only(full), shard.view(part), buffer.view(of_buffer));
  d.stream.wait_for_peers();
  for (std::int64_t i = 0; i < map.length(d.world.rank()); ++i) {
    auto sum = sum_of<stored>(ranks, static_cast<std::size_t>(map.begin(d.world.rank()) + i));
    if (!d.ranks.ordered()) sum = static_cast<stored>(sum);
    auto& x = mine[static_cast<std::size_t>(i)];
    x = static_cast<stored>(static_cast<ct::arithmetic<stored>>(x) + sum);
  }
  check(equal(shard.read(), mine), "adding reduce_scatter of " + std::to_string(count));
}

/// One number per rank, in two groups of one stream: of all ranks, and of pairs of ranks.
void gathers_in_groups(device_of_rank& d) {
  auto const n = static_cast<std::size_t>(d.world.size());
  auto const rank = static_cast<float>(d.world.rank());
  device_array<float> const mine({rank}, d.stream), all(std::vector<float>(n), d.stream), two({0, 0}, d.stream);
  d.ranks.data().all_gather(d.stream, mine.data, 1, all.data);
  if (n == 4) d.ranks.zero().all_gather(d.stream, mine.data, 1, two.data);
  d.stream.wait_for_peers();
  auto const got = all.read(), pair = two.read();
  for (std::size_t r = 0; r < n; ++r) check(got[r] == static_cast<float>(r), "all_gather of equal counts");
  float const first = rank < 2 ? 0 : 2;
  if (n == 4) check(pair[0] == first && pair[1] == first + 1, "all_gather in a group of two");
}

template <class stored> void all_of(device_of_rank const& d) {
  for (std::size_t const count : {1, 7, 96, 1000, 1024})
    for (std::size_t const exchanged : {24, 96, 4096}) all_reduces<stored>(d, count, exchanged);
  for (std::size_t const count : {5, 1024, 3000, 4096, 5001}) scatters_and_gathers<stored>(d, count);
}

} // namespace

int main() {
  ct::mpi world;
  show_devices(world.size());
  if (world.size() == 1) return EXIT_SUCCESS; // no group is made
  auto const pairs = world.groups_of(world.size() % 2 == 0 ? 2 : 1);
  {
    device_of_rank d(world, world);
    all_of<float>(d);
    all_of<double>(d);
    all_of<ct::bfloat16>(d);
    all_of<ct::float16>(d);
  }
  {
    device_of_rank const d(world, world, false); // the stand-in's own sums are in rank order, too
    all_of<float>(d);
    all_of<ct::bfloat16>(d);
  }
  {
    device_of_rank d(world, *pairs);
    gathers_in_groups(d);
  }
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
