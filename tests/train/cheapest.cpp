#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

// The fastest strategy that fits, by the cost model, as a type.

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 4}>;
using plain = ct::policies<>;
using recomputing = ct::policies<ct::checkpoint::every<1>>;
using lean = ct::policies<ct::optimizer::sgd, ct::checkpoint::every<1>>;
template <class set> constexpr ct::bytes peak = ct::entries<task, set>::memory.peak;
template <ct::bytes limit> using choice = ct::cheapest<limit, task, plain, recomputing, lean>;

// Everything fits: what recomputes nothing is the fastest.
static_assert(choice<ct::mebibytes(64)>::index == 0);
static_assert(std::is_same_v<choice<ct::mebibytes(64)>::policies, plain>);
static_assert(std::is_same_v<choice<ct::mebibytes(64)>::trainer, ct::trainer<task>>);
// To the byte.
static_assert(peak<lean> < peak<recomputing> && peak<recomputing> < peak<plain>);
static_assert(choice<peak<plain>>::index == 0);
static_assert(choice<ct::bytes(peak<plain>.count() - 1)>::index != 0);
static_assert(choice<ct::bytes(peak<recomputing>.count() - 1)>::index == 2);
static_assert(choice<peak<lean>>::index == 2);
static_assert(choice<peak<lean>>::table[0].peak == peak<plain> && !choice<peak<lean>>::table[0].fits);

// The memory of the entries without gradients counts too, for the table as for the choice.
using evaluating = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 64, .vocabulary = 256, .context = 64},
                            ct::causal_lm, ct::micro_batch{.sequences = 1, .evaluation_sequences = 32}>;
using averaged = ct::policies<ct::precision::bf16, ct::optimizer::averaged<ct::optimizer::sgd>>;
template <class set> constexpr ct::bytes evaluating_peak = ct::entries<evaluating, set>::memory.peak;
template <class... sets> using choice_for_evaluation = ct::cheapest<evaluating_peak<lean>, evaluating, sets...>;
static_assert(choice_for_evaluation<lean, averaged>::table[0].peak == evaluating_peak<lean>);
static_assert(choice_for_evaluation<lean, averaged>::table[1].peak == evaluating_peak<averaged>);
static_assert(ct::entries<evaluating, averaged>::other_peak > ct::entries<evaluating, averaged>::step::where.end);
using small_enough = choice_for_evaluation<plain, lean>;
static_assert(evaluating_peak<lean> < evaluating_peak<plain>);
static_assert(small_enough::index == 1 && !small_enough::table[0].fits && small_enough::table[1].fits);

/// One call each of a GEMM and of something else.
constexpr ct::device_rates rates{.gemm_64 = 1,
                                 .gemm_32 = 2e9,
                                 .gemm_tf32 = 4e9,
                                 .gemm_bf16 = 8e9,
                                 .gemm_fp16 = 8e9,
                                 .operations = 1e30,
                                 .bytes = 1e30,
                                 .launch = 0};
using step_of = ct::step_passes<ct::detail::step_source<task, plain>>;
using bf16_step = ct::step_passes<ct::detail::step_source<task, ct::policies<ct::precision::bf16>>>;
constexpr double seconds = ct::estimated_seconds(step_of::final, rates);
// If only GEMMs take time, only their rates matter.
constexpr bool about(double a, double b) { return a < b * 1.000001 && b < a * 1.000001; }
static_assert(about(ct::estimated_seconds(step_of::final, rates, true), seconds / 2));
static_assert(about(ct::estimated_seconds(bf16_step::final, rates), seconds / 4));
// With only bytes or launches taking time, the plan's sums.
static_assert(about(ct::estimated_seconds(step_of::final, {1e30, 1e30, 1e30, 1e30, 1e30, 1e30, 1, 0}),
                    ct::work_of(step_of::final).bytes_moved));
static_assert(about(ct::estimated_seconds(step_of::final, {1e30, 1e30, 1e30, 1e30, 1e30, 1e30, 1e30, 1}),
                    static_cast<double>(ct::work_of(step_of::final).kernel_launches)));
// Infinite if a rate that is needed is unknown.
constexpr double infinity = std::numeric_limits<double>::infinity();
static_assert(ct::estimated_seconds(step_of::final, {}) == infinity);
static_assert(ct::estimated_seconds(step_of::final, {.gemm_32 = 1, .operations = 1}) == infinity);
static_assert(ct::estimated_seconds(step_of::final, {.gemm_64 = 1, .operations = 1, .bytes = 1}) == infinity);
static_assert(ct::estimated_seconds(step_of::final, {.gemm_32 = 1, .operations = 1, .bytes = 1}) < infinity);
// Or if one is out of range.
static_assert(ct::estimated_seconds(step_of::final, {.gemm_32 = infinity, .operations = 1, .bytes = 1}) == infinity);
static_assert(ct::estimated_seconds(step_of::final, {.gemm_32 = 1, .operations = 1, .bytes = 1e-320}) == infinity);
static_assert(ct::estimated_seconds(step_of::final, {.gemm_32 = 1, .operations = 1, .bytes = 1, .launch = -1}) ==
              infinity);

} // namespace

TEST_CASE("cheapest: the table marks the choice and what does not fit") {
  auto const text = choice<peak<lean>>::text();
  CHECK(text.find("* fp32, sgd, checkpoint::every<1>") != std::string::npos);
  CHECK(text.find("  fp32, adamw ") != std::string::npos);
  CHECK(text.find("does not fit") != std::string::npos);
}

TEST_CASE("cheapest: a trainer of the choice uses no more than the limit") {
  using chosen = choice<ct::bytes(peak<plain>.count() - 1)>;
  typename chosen::trainer t({}, {.measure_memory = true});
  std::vector<std::int32_t> const tokens(static_cast<std::size_t>(t.batch_tokens), 3), labels(tokens.size(), 4);
  t.step(t.batch(tokens, labels));
  CHECK(t.used_bytes() < peak<plain>);
}

TEST_CASE("cheapest: a strategy whose plan exceeds the limit of its checkpoint::budget does not fit") {
  using too_small = ct::policies<ct::checkpoint::budget<ct::kibibytes(256)>>;
  using choice = ct::cheapest<ct::gibibytes(1), task, too_small, ct::policies<ct::checkpoint::every<1>>>;
  static_assert(choice::table[0].peak > ct::kibibytes(256) && choice::table[0].peak < ct::gibibytes(1));
  static_assert(!choice::table[0].fits && choice::table[1].fits && choice::index == 1);
}
