#include "call_kernel.hpp"

#include <constrain/op/collective/cpu.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

// The arithmetic of collectives, with all ranks in one process. comm/mpi.cpp tests several processes.

namespace ct = constrain;

static_assert(ct::info_of<ct::op::all_gather>.gradient == nullptr);
static_assert(ct::info_of<ct::op::reduce_scatter>.gradient == nullptr);
static_assert(ct::info_of<ct::op::all_reduce>.gradient == nullptr);
static_assert(ct::info_of<ct::op::local_shard>.gradient == nullptr);
static_assert(ct::info_of<ct::op::gather_ranks>.gradient == nullptr);
static_assert(ct::info_of<ct::op::all_reduce_small>.gradient == nullptr);

// 20 elements that each describe 256 of the parameter are 5 chunks of 4: each of two shards stores 3 chunks.
static_assert(ct::op::local_shard::infer(ct::test::types({{ct::dtype::f32, ct::shape(20)}}), {.shards = 2, .chunk = 4})
                  .outputs[0] == ct::operand_type{ct::dtype::f32, ct::shape(12)});

// Pieces are disjoint, cover all, begin where a chunk does, and none is longer than what is stored.
constexpr bool covers(std::int64_t elements, std::int64_t shards, std::int64_t chunk) {
  ct::shard_map const map{elements, shards, chunk};
  std::int64_t end = 0;
  for (std::int64_t s = 0; s < shards; ++s) {
    if (map.begin(s) != end || map.length(s) < 0 || map.length(s) > map.stored()) return false;
    if (map.length(s) > 0 && map.begin(s) % chunk != 0) return false;
    end += map.length(s);
  }
  return end == elements;
}
constexpr bool all_cover(std::int64_t chunk) {
  for (std::int64_t elements = 1; elements < 40; ++elements)
    for (std::int64_t shards = 1; shards < 12; ++shards)
      if (!covers(elements, shards, chunk)) return false;
  return true;
}
static_assert(all_cover(1) && all_cover(2) && all_cover(3) && all_cover(8) && all_cover(64));
static_assert(ct::shard_map{10, 4, 1}.stored() == 3 && ct::shard_map{10, 4, 1}.length(3) == 1);
static_assert(ct::shard_map{2, 4, 1}.length(2) == 0 && ct::shard_map{2, 4, 1}.length(3) == 0);
// A tensor is cut between the chunks of the norm: 5 of 1024 elements and a tail over 2 and 4 ranks.
constexpr ct::shard_map halves{5 * 1024 + 9, 2}, quarters{5 * 1024 + 9, 4};
static_assert(halves.stored() == 3 * 1024 && halves.length(1) == 2 * 1024 + 9);
static_assert(quarters.stored() == 2 * 1024 && quarters.length(2) == 1024 + 9 && quarters.length(3) == 0);
static_assert(ct::shard_map{700, 4}.stored() == 700 && ct::shard_map{700, 4}.length(1) == 0); // one chunk is not cut

TEST_CASE("parts are added in the order of the ranks") {
  // In float 1e8 + 1 - 1e8 is 0 in this order, and 1 in another.
  float const parts[] = {1e8f, 1.0f, -1e8f};
  float sum = -1;
  ct::detail::add_in_order(parts, 1, 3, 1, &sum, false);
  CHECK(sum == 0.0f);
  sum = 5;
  ct::detail::add_in_order(parts, 1, 3, 1, &sum, true);
  CHECK(sum == 5.0f);
}

TEST_CASE("parts in 16 bits are added in fp32 and rounded once") {
  // In fp16, 2048 + 1 is 2048.
  ct::float16 const parts[] = {2048.0f, 1.0f, 1.0f};
  ct::float16 sum = 2.0f;
  ct::detail::add_in_order(parts, 1, 3, 1, &sum, false);
  CHECK(float(sum) == 2050.0f);
  ct::detail::add_in_order(parts, 1, 3, 1, &sum, true);
  CHECK(float(sum) == 4100.0f);
}

TEST_CASE("alone, a rank's shard is the full tensor") {
  ct::self world, group;
  ct::step_parameters parameters;
  parameters.data = &world;
  parameters.zero = &group;
  auto const options = ct::pack(ct::op::reduce_scatter::options{.shards = 1});
  ct::call const c{options, parameters};
  std::vector<float> gradient(300'000), shard(gradient.size(), -1), buffer(ct::op::exchange_elements);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  ct::shape const s(300'000), b(ct::op::exchange_elements);
  using scatter = ct::kernel<ct::op::reduce_scatter, ct::cpu>;
  scatter::run(c, ct::tensor<float const>{gradient.data(), &s, 300'000}, ct::tensor<float>{shard.data(), &s, 300'000},
               ct::tensor<float>{buffer.data(), &b, ct::op::exchange_elements});
  CHECK(shard == gradient);
}

namespace {

/// One of two ranks, which exchanges nothing.
struct one_of_two : ct::communicator {
  int number;
  explicit one_of_two(int n) : number(n) {}
  int rank() const override { return number; }
  int size() const override { return 2; }
  void all_gather(std::byte*, std::int64_t const*, std::int64_t const*) override {}
  void all_to_all(std::byte const*, std::int64_t const*, std::int64_t const*, std::byte*, std::int64_t) override {}
  void barrier() override {}
  std::unique_ptr<ct::communicator> groups_of(int) override { return nullptr; }
  std::unique_ptr<ct::communicator> strided_groups(int) override { return nullptr; }
  [[noreturn]] void abort(int status) override { std::exit(status); }
  bool all_failed_or_exited() override { return true; }
};

} // namespace

TEST_CASE("each rank keeps its shard of a full tensor, padded with zeros") {
  auto const elements = 2 * ct::norm_chunk + 100; // three chunks: two for rank 0, the short one for rank 1
  std::vector<float> full(static_cast<std::size_t>(elements));
  std::iota(full.begin(), full.end(), 0.0f);
  auto const options = ct::pack(ct::op::local_shard::options{.shards = 2});
  ct::shape const s(elements), stored(2 * ct::norm_chunk);
  for (int rank : {0, 1}) {
    one_of_two group(rank);
    ct::step_parameters parameters;
    parameters.zero = &group;
    ct::call const c{options, parameters};
    std::vector<float> shard(static_cast<std::size_t>(stored.elements()), -1);
    ct::kernel<ct::op::local_shard, ct::cpu>::run(c, ct::tensor<float const>{full.data(), &s, elements},
                                                  ct::tensor<float>{shard.data(), &stored, stored.elements()});
    for (std::int64_t i = 0; i < stored.elements(); ++i) {
      auto const at = rank * stored.elements() + i;
      CHECK(shard[static_cast<std::size_t>(i)] == (at < elements ? static_cast<float>(at) : 0.0f));
    }
  }
}

namespace {

/// One of two ranks with equal data. Keeps the largest offset of an exchange.
struct one_of_two_equal final : one_of_two {
  std::int64_t largest_offset = 0;
  using one_of_two::one_of_two;
  void all_to_all(std::byte const* send, std::int64_t const* offsets, std::int64_t const* lengths, std::byte* receive,
                  std::int64_t length) override {
    largest_offset = std::max({largest_offset, offsets[0], offsets[1]});
    for (int rank : {0, 1}) std::copy_n(send + offsets[number], lengths[number], receive + rank * length);
  }
};

} // namespace

TEST_CASE("reduce_scatter in slices: offsets count from the slice, since communicators limit them") {
  std::int64_t const elements = 600'001;
  ct::shard_map const map{elements, 2};
  std::vector<float> gradient(static_cast<std::size_t>(elements)), buffer(ct::op::exchange_elements);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  auto const options = ct::pack(ct::op::reduce_scatter::options{.shards = 2});
  ct::shape const s(elements), stored(map.stored()), b(ct::op::exchange_elements);
  REQUIRE(map.stored() > ct::op::exchange_elements); // several slices
  for (int rank : {0, 1}) {
    one_of_two_equal group(rank);
    ct::step_parameters parameters;
    parameters.data = &group;
    parameters.zero = &group;
    std::vector<float> shard(static_cast<std::size_t>(map.stored()), -1), expected(shard.size(), 0);
    for (std::int64_t i = 0; i < map.length(rank); ++i)
      expected[static_cast<std::size_t>(i)] = 2 * static_cast<float>(map.begin(rank) + i);
    ct::kernel<ct::op::reduce_scatter, ct::cpu>::run(ct::call{options, parameters},
                                                     ct::tensor<float const>{gradient.data(), &s, elements},
                                                     ct::tensor<float>{shard.data(), &stored, map.stored()},
                                                     ct::tensor<float>{buffer.data(), &b, ct::op::exchange_elements});
    CHECK(shard == expected);
    CHECK(group.largest_offset == map.begin(1) * std::int64_t{sizeof(float)});
  }
}
