#include "check_gradients.hpp"
#include "sanitizers.hpp"

#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <new>
#include <string_view>

// Nothing is allocated after the first step. Our own code allocates through operator new; malloc itself is hooked too,
// and what the GEMM provider takes is counted apart.

namespace ct = constrain;

namespace {

std::atomic<bool> counting{false};
std::atomic<long> news{0}, mallocs{0}, malloc_bytes{0};

} // namespace

#if CONSTRAIN_HAS_SANITIZER
// A sanitizer's malloc cannot be replaced; it tells of each call instead, though not whose it was. One thread enters no
// parallel region, in which clang's OpenMP would take some.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(void const volatile*, std::size_t),
                                                         void (*)(void const volatile*));

namespace {

bool const hooked = (omp_set_num_threads(1), true) && __sanitizer_install_malloc_and_free_hooks(
                                                          [](void const volatile*, std::size_t size) {
                                                            if (!counting) return;
                                                            ++mallocs;
                                                            malloc_bytes += static_cast<long>(size);
                                                          },
                                                          [](void const volatile*) {}) > 0;

} // namespace
#else
namespace {

constexpr bool hooked = true;

// Whether the code at `caller` belongs to one of these shared libraries, which share our operator new and malloc.
bool is_in(void* caller, std::initializer_list<char const*> names) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  std::string_view const library(info.dli_fname);
  for (auto name : names)
    if (library.find(name) != std::string_view::npos && library.find(".so") != std::string_view::npos) return true;
  return false;
}

void* allocate(std::size_t size, void* caller) {
  if (counting && !is_in(caller, {"dnnl", "blas", "omp"})) ++news;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}

} // namespace

void* operator new(std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

extern "C" void* __libc_malloc(std::size_t);
extern "C" void* malloc(std::size_t size) {
  // clang's OpenMP takes 512 bytes in every parallel region.
  if (counting && !is_in(__builtin_return_address(0), {"libomp"})) {
    ++mallocs;
    malloc_bytes += static_cast<long>(size);
  }
  return __libc_malloc(size);
}

#endif

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 64, .vocabulary = 97, .context = 32}, ct::causal_lm,
                      ct::micro_batch{.sequences = 4}>;

struct counts {
  long ours, all, bytes, steps;
};

template <class trainer> counts count_steps() {
  auto const w = ct::test::random_batch::draw<trainer>(1);
  trainer t{{}, {.clip_norm = 1, .schedule = ct::schedule::cosine{.warmup = 2, .steps = 20}, .dropout = 0.1}};
  auto const batch = t.batch(w.inputs, w.labels);
  t.step(batch);
  news = mallocs = malloc_bytes = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) t.step(batch);
  counting = false;
  return {news, mallocs, malloc_bytes, 10};
}

// The same over a data set, whose batches another thread fills.
template <class trainer, class dataset> counts count_batches(dataset const& data) {
  trainer t;
  int steps = -8; // the thread fills each of its buffers once before the count begins
  for (auto const& batch : t.batches(data)) {
    if (steps == 10) break;
    t.step(batch);
    if (++steps == 0) {
      news = mallocs = malloc_bytes = 0;
      counting = true;
    }
  }
  counting = false;
  return {news, mallocs, malloc_bytes, 10};
}

} // namespace

TEST_CASE("batches after the first ones allocate nothing") {
  using bytes = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 32},
                         ct::causal_lm, ct::micro_batch{.sequences = 4}>;
  using trainer = ct::trainer<bytes, ct::precision::fp64, ct::accumulate<2>>;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
  std::vector<std::int32_t> const inputs(text.begin(), text.end() - 32), labels(text.begin() + 32, text.end());
  ct::data::examples const examples(inputs, labels);
  auto const split = examples.split(0.1).train;
  for (auto const& found : {count_batches<trainer>(ct::data::text_from(text)), count_batches<trainer>(split)}) {
    CHECK(found.ours == 0);
    CHECK(found.all == 0);
  }
}

TEST_CASE("steps after the first allocate nothing of ours") {
  REQUIRE(hooked);
  // In double every product is the built-in one: no provider, no allocation at all.
  auto const own = count_steps<ct::trainer<task, ct::precision::fp64, ct::accumulate<2>, ct::checkpoint::every<2>>>();
  CHECK(own.ours == 0);
  CHECK(own.all == 0);
  auto const with_provider = count_steps<ct::trainer<task, ct::accumulate<2>, ct::checkpoint::every<2>>>();
  CHECK(with_provider.ours == 0);
  std::printf("%s: %ld mallocs and %ld bytes a step\n", ct::gemm_provider(), with_provider.all / with_provider.steps,
              with_provider.bytes / with_provider.steps);
  // A bound on the provider's: some small ones per product, and there are 75 launches of products in this step at most.
  CHECK(with_provider.all / with_provider.steps <= 75 * 32);
  if (std::string_view(ct::gemm_provider()) == "built-in") CHECK(with_provider.all == 0);
}
