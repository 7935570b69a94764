#include "pass/programs.hpp"

#include <constrain/constrain.hpp>
#include <constrain/pass/divided_forms.hpp>
#include <doctest/doctest.h>

#include <vector>

// Which calls may read a tensor of which each rank of a tensor group has a part.

using namespace constrain;

namespace {

using lm = task<gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 30, .context = 8}, causal_lm,
                micro_batch{.sequences = 2}>;
// The passes before are the same with and without MPI: only the trainer would exchange data.
template <class optimizer, class of = lm> constexpr program updated_by() {
  using policy_set = typename trainer<of>::policy_set;
  auto const forward = divide(entries<of, policy_set>::step_program::without_dead_code, 2);
  return update<optimizer>(differentiate(forward, false));
}
constexpr program updated = updated_by<optimizer::adamw>();
static_assert(updated.failure.ok());

/// Reads the first gradient that is divided, or not, by `op`, and what `op` computes by a second op.
template <class op, class second> constexpr program reading(bool is_divided) {
  builder out;
  out.program = updated;
  int v = 0;
  while (updated.values[v].role != role::gradient || updated.is_divided(v) != is_divided) ++v;
  ref const gradient{v, at::current};
  ref const result = out.call<op>({gradient}).outputs[0];
  out.call<second>({result});
  return use_divided_forms(out.program);
}
struct halve {
  static constexpr char const* name = "halve";
  static constexpr char const* layouts = "* -> *";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct largest {
  static constexpr char const* name = "largest";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, shape(1)); }
};
struct ones {
  static constexpr char const* name = "ones";
  static constexpr char const* layouts = "# -> -";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct times {
  static constexpr char const* name = "times";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct shuffle {
  static constexpr char const* name = "shuffle";
  static constexpr bool guarded = true;
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct noise : halve {
  static constexpr char const* name = "noise";
  static constexpr bool draws_random = true;
};
struct shape_noise : noise {
  static constexpr char const* name = "shape_noise";
  static constexpr char const* layouts = "# -> *";
};

/// Adds a call to `noise` that reads the first divided weight, and writes an activation, or that reads the step's loss,
/// and writes the first divided gradient.
constexpr program with_noise(bool reads_weight) {
  builder out;
  out.program = updated;
  int v = 0;
  while (updated.values[v].role != (reads_weight ? role::weight : role::gradient) || !updated.is_divided(v)) ++v;
  ref const divided{v, at::current};
  if (reads_weight) out.call<noise>({divided});
  else out.call<noise>({updated.result("loss")}, {divided});
  return use_divided_forms(out.program);
}

/// Gathers the first divided weight.
constexpr program gathering_a_weight() {
  builder out;
  out.program = updated;
  int v = 0;
  while (updated.values[v].role != role::weight || !updated.is_divided(v)) ++v;
  out.call<op::tensor_gather>({{v, at::current}}, {}, {.features = 2, .ranks = 2});
  return use_divided_forms(out.program);
}
static_assert(gathering_a_weight().failure.ok());

constexpr bool refuses(program const& p, op_label const* op) {
  return p.failure.refusal == refusal_with<refusals::divided_tensor_is_read>() && p.failure.op == op &&
         p.failure.held == layout::divided && p.failure.needed == layout::replicated;
}
static_assert(reading<largest, halve>(false).failure.ok());
static_assert(reading<halve, halve>(true).failure.ok());
static_assert(reading<ones, largest>(true).failure.ok());
static_assert(refuses(reading<largest, halve>(true), info_of<largest>.label));
static_assert(refuses(reading<halve, largest>(true), info_of<largest>.label)); // a part of halves
static_assert(refuses(reading<halve, op::gradient_norm_squared>(true), info_of<op::gradient_norm_squared>.label));
static_assert(reading<halve, op::gradient_norm_squared>(false).failure.ok());
// Random numbers depend on positions in the full tensor, whether the op is element-wise, or reads only the shape, or
// the call reads a weight as a layer does, or reads nothing that is divided.
static_assert(refuses(reading<noise, halve>(true), info_of<noise>.label));
static_assert(refuses(reading<shape_noise, halve>(true), info_of<shape_noise>.label));
static_assert(reading<noise, halve>(false).failure.ok());
static_assert(refuses(with_noise(true), info_of<noise>.label));
static_assert(refuses(with_noise(false), info_of<noise>.label));

/// Scales the gradient with a number computed by the ops `first` and `second` from the parameter.
template <class first, class second> struct scaled_by {
  using base = optimizer::adamw;
  struct hyper {
    optimizer::adamw::hyper base{};
  };
  static constexpr void update(update_rule& u) {
    u.assign(u.gradient(), emit<times>({u.gradient(), emit<second>({emit<first>({u.parameter()})})}));
    op::update_by<base>(u);
  }
};
template <class first, class second> constexpr program scaled = updated_by<scaled_by<first, second>>();
static_assert(refuses(scaled<largest, halve>, info_of<largest>.label));
static_assert(refuses(scaled<halve, largest>, info_of<largest>.label)); // a part of halves
static_assert(scaled<ones, largest>.failure.ok());

/// Changes the parameter in place, not element by element.
struct shuffled : scaled_by<halve, largest> {
  static constexpr void update(update_rule& u) { u.update_in_place<shuffle>({u.scale()}, {u.parameter()}); }
};
static_assert(refuses(updated_by<shuffled>(), info_of<shuffle>.label));

// Which tensors have 8-bit states depends on the full tensor, of 1024 elements here, not on a rank's range of it.
template <int elements> struct of_size {
  static constexpr bool contain(role r, std::int64_t n) { return r == role::weight && n >= elements; }
};
template <int elements>
constexpr program quantized = updated_by<optimizer::quantized<optimizer::adamw, of_size<elements>>>();
static_assert(refuses(quantized<1024>, info_of<op::quantized_update<optimizer::adamw>>.label));
static_assert(quantized<1025>.failure.ok());

} // namespace

TEST_CASE("divided forms: each divided gradient's norm is summed over the ranks, once") {
  static constexpr program p = use_divided_forms(updated);
  static_assert(p.failure.ok());
  int divided = 0, sums = 0;
  for (int v = 0; v < updated.values.size(); ++v)
    divided += updated.values[v].role == role::gradient && updated.is_divided(v) ? 1 : 0;
  for (auto const& n : p.nodes) sums += calls(n, info_of<op::tensor_norm_squared>) ? 1 : 0;
  CHECK(divided == 7);
  CHECK(sums == divided);
  CHECK(p.nodes.size() == updated.nodes.size() + sums);
}

TEST_CASE("divided forms: unused rows are set to 0 before the norm and after the update") {
  using odd = task<gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8}, causal_lm,
                   micro_batch{.sequences = 2}>;
  static constexpr program p = use_divided_forms(updated_by<optimizer::adamw, odd>());
  static_assert(p.failure.ok() && verify(p).ok());
  std::vector<role> cleared;
  for (auto const& n : p.nodes)
    if (calls(n, info_of<op::clear_unused>)) {
      auto const options = unpack<op::clear_unused::options>(n.attributes);
      CHECK((options.elements == 16 * 16 && options.unused == 16));
      cleared.push_back(p.values[n.outputs[0].value].role);
    }
  CHECK(cleared == std::vector{role::gradient, role::embedding});
}
