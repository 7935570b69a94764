#include <constrain/op/attention/attention.hpp>
#include <constrain/program/refusal.hpp>
#include <doctest/doctest.h>

#include <type_traits>

// A refusal of an op is data in a diagnosis, and the template with its sentence comes back from there.

using namespace constrain;

namespace {

struct split {
  template <diagnosis d> struct odd {
    static_assert(d.line != 0, "not for a line of 0");
    static constexpr std::int64_t expected = d.expected, got = d.got;
  };
  template <diagnosis d> struct even {};
  static constexpr inferred infer(operand_types const& in) { return inferred::failure<odd>(2, in.size()); }
};
template <diagnosis d> struct outside_of_an_op {};

constexpr auto refused = split::infer(operand_types()).at(7, 3);
static_assert(refused.reason == why::refused && !refused.ok() && refused.line == 7 && refused.called_from == 3);
static_assert(refused.expected == 2 && refused.got == 0);
static_assert(std::is_same_v<detail::own_refusal<refused>, split::odd<refused>>);
static_assert(detail::own_refusal<refused>::expected == 2);
static_assert(refused.refusal == refusal_with<split::odd>());
static_assert(refused == diagnosis_with<split::odd>(7, 3, 2, 0));

// Refusals differ by their template, in one op and across ops.
constexpr auto other = diagnosis_with<split::even>(1), outside = diagnosis_with<outside_of_an_op>(1);
static_assert(std::is_same_v<detail::own_refusal<other>, split::even<other>>);
static_assert(std::is_same_v<detail::own_refusal<outside>, outside_of_an_op<outside>>);

// The library's ops: each refusal belongs to its op, or to several.
constexpr operand_types three(dtype type, shape s) {
  operand_types in;
  for (int i = 0; i < 3; ++i) in.push_back({type, s});
  return in;
}
static_assert(op::attention::infer(three(dtype::f32, shape(2, 4, 10)), {.heads = 2, .key_value_heads = 1}).refusal ==
              refusal_with<op::attention::keys_or_values_do_not_fit_the_queries>());
static_assert(op::attention::infer(three(dtype::f32, shape(2, 4, 10)), {.heads = 3}).refusal ==
              refusal_with<op::attention::heads_do_not_divide_the_width>());
static_assert(op::attention::infer(three(dtype::i32, shape(2, 4, 12)), {.heads = 3}).refusal ==
              refusal_with<op::integers_instead_of_floats>());

} // namespace

TEST_CASE("a call that its op refuses fails its program once, with the first refusal") {
  builder out;
  ref const x{out.new_value({dtype::f32, shape(2, 4, 10)}, role::input, 0), at::current};
  out.call<op::attention>({x, x, x}, {}, {.heads = 2, .key_value_heads = 1}, 11);
  out.call<op::attention>({x, x, x}, {}, {.heads = 3}, 12);
  CHECK(out.program.failure.reason == why::refused);
  CHECK(out.program.failure.line == 11);
  CHECK(out.program.failure.refusal == refusal_with<op::attention::keys_or_values_do_not_fit_the_queries>());
}
