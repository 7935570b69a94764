#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <type_traits>

using namespace constrain;

namespace {

using small_task = task<gpt2{.layers = 3, .heads = 2, .width = 32, .vocabulary = 64, .context = 16}, causal_lm,
                        micro_batch{.sequences = 4}>;

template <class... chosen> using entries_of = typename trainer<small_task, chosen...>::entries;
using plain = entries_of<>;

/// Whether a trainer with these policies runs the passes of `evaluate` and `predict` that a trainer without policies
/// runs.
template <class... chosen>
constexpr bool shares_passes =
    std::is_same_v<typename entries_of<chosen...>::evaluate_program, plain::evaluate_program>&&
        std::is_same_v<typename entries_of<chosen...>::predict_program, plain::predict_program>;

/// A policy in the slot of `accumulate`, with a pass that changes no program.
struct own_pass : accumulate<1> {
  static constexpr auto after = pass_name::built;
  static constexpr program pass(program const& p, slot const&) { return p; }
};

} // namespace

TEST_CASE("trainers of one task share the passes of entries that do not read the other policies") {
  CHECK(shares_passes<optimizer::sgd>);
  CHECK(shares_passes<accumulate<3>, checkpoint::every<1>, optimizer::averaged<optimizer::lion>>);
  CHECK_FALSE(shares_passes<precision::bf16>);
  CHECK_FALSE(shares_passes<attention::reference>);
  CHECK_FALSE(shares_passes<fusion::none>);
  CHECK_FALSE(shares_passes<freeze<role::embedding>>);
  CHECK_FALSE(shares_passes<own_pass>);
}

TEST_CASE("the programs before any pass are one constant for each entry and type of the parameters") {
  auto const* const built = &plain::step_program::built;
  CHECK(built == &entries_of<optimizer::lion, precision::bf16, checkpoint::sqrt>::step_program::built);
  CHECK(built != &entries_of<precision::fp64>::step_program::built);
  CHECK(built != &plain::evaluate_program::built);
}

TEST_CASE("the plans of entries differ where the policies that they do not share matter") {
  using averaged = entries_of<optimizer::averaged<optimizer::lion>>;
  CHECK(averaged::evaluate::where.persistent_end == averaged::step::where.persistent_end);
  CHECK(plain::evaluate::where.persistent_end == plain::step::where.persistent_end);
  CHECK(averaged::step::where.persistent_end != plain::step::where.persistent_end);
}
