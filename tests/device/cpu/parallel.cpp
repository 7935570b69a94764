#include "constrain/device/cpu/parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <vector>

namespace ct = constrain;

namespace {

void use_threads([[maybe_unused]] int threads) {
#if defined(_OPENMP)
  omp_set_num_threads(threads);
#endif
}

} // namespace

TEST_CASE("parallel_for visits every index once") {
  int const before = ct::thread_count();
  for (int const threads : {1, 2, 4})
    for (int const count : {0, 1, 2, 7, 1000}) {
      use_threads(threads);
      std::vector<int> visits(static_cast<std::size_t>(count));
      ct::parallel_for(count, [&](std::int64_t index) { ++visits[static_cast<std::size_t>(index)]; });
      CHECK(std::accumulate(visits.begin(), visits.end(), 0) == count);
      CHECK(std::count(visits.begin(), visits.end(), 1) == count);
    }
  ct::parallel_for(-3, [](std::int64_t) { FAIL("a negative count has no index"); });
  use_threads(before);
}

TEST_CASE("parallel_chunks has the same boundaries for every number of threads") {
  int const before = ct::thread_count();
  for (int const threads : {1, 2, 4}) {
    use_threads(threads);
    std::vector<std::int64_t> begins(4, -1), ends(4, -1);
    ct::parallel_chunks(35, 10, [&](std::int64_t begin, std::int64_t end) {
      begins[static_cast<std::size_t>(begin / 10)] = begin;
      ends[static_cast<std::size_t>(begin / 10)] = end;
    });
    CHECK(begins == std::vector<std::int64_t>{0, 10, 20, 30});
    CHECK(ends == std::vector<std::int64_t>{10, 20, 30, 35});
  }
  ct::parallel_chunks(0, 10, [](std::int64_t, std::int64_t) { FAIL("nothing has no chunk"); });
  use_threads(before);
}

TEST_CASE("a loop inside a parallel loop is serial") {
  int const before = ct::thread_count();
  use_threads(2);
  std::vector<int> threads(4), order_kept(4); // not bool: its elements share words
  ct::parallel_for(4, [&](std::int64_t outer) {
    std::int64_t next = 0;
    bool kept = true;
    ct::parallel_for(100, [&](std::int64_t inner) { kept = kept && inner == next++; });
    threads[static_cast<std::size_t>(outer)] = ct::thread_count();
    order_kept[static_cast<std::size_t>(outer)] = kept;
  });
  CHECK(threads == std::vector<int>(4, 1));
  CHECK(order_kept == std::vector<int>(4, 1));
  use_threads(before);
}

TEST_CASE("CONSTRAIN_OMP takes clauses with commas and parentheses") {
  int sum = 0;
  CONSTRAIN_OMP(simd reduction(+ : sum) simdlen(4))
  for (int i = 0; i < 100; ++i) sum += i;
  CHECK(sum == 4950);
}
