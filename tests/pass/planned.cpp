#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <string_view>
#include <vector>

namespace ct = constrain;
using ct::value;

namespace own {

struct no_shift;
struct shift_slot {
  bool shifts = false;
  friend constexpr bool operator==(shift_slot const&, shift_slot const&) = default;
  template <class...> using otherwise = no_shift;
  using rules = ct::rule_list<>;
};
struct no_shift {
  using slot = shift_slot;
  static constexpr slot value{};
};
/// A policy whose pass adds a setting.
struct shift {
  using slot = shift_slot;
  static constexpr slot value{.shifts = true};
  static constexpr auto after = ct::pass_name::built;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    return ct::rewrite(p, [](ct::builder& out, ct::node n, int) {
      if (calls(n, ct::info_of<ct::op::full_like>))
        n.inputs[1] = ct::setting(ct::value{out, n.inputs[1]}, "of_the_pass", 0).where();
      out.program.add_node(n);
    });
  }
};

} // namespace own

namespace {

/// Logits plus a setting.
struct shifted_logits {
  constexpr value operator()(value tokens) const {
    auto const x = ct::embedding(ct::parameter(tokens, "table", ct::shape(5, 5), ct::role::frozen), tokens);
    auto const shift = ct::emit<ct::op::full_like>({x, ct::setting(x, "shift", 0)});
    return ct::linear("head", x, 5) + shift;
  }
};
/// A parameter after the setting, for several sequences only.
struct with_a_late_parameter {
  constexpr value operator()(value tokens) const {
    auto const logits = shifted_logits()(tokens);
    return tokens.shape().extent[0] == 1 ? logits : ct::linear("late", logits, 5);
  }
};
struct learned_objective {
  constexpr value operator()(value logits, value labels) const {
    return ct::cross_entropy(ct::linear("mix", logits, 5), labels);
  }
};
constexpr ct::micro_batch two{.sequences = 2, .tokens = 3};
using with_an_objective = ct::task<shifted_logits{}, learned_objective, two>;
using with_fewer = ct::task<with_a_late_parameter{}, ct::causal_lm, two>;

/// The offset of a parameter or setting, by its name; -1: the program has none of this name.
template <class entry> constexpr std::int64_t offset(std::string_view name) {
  for (int v = 0; v < entry::final.values.size(); ++v)
    if (auto const& info = entry::final.values[v]; info.role != ct::role::state && entry::final.text(info.name) == name)
      return entry::where.buffers[v].offset;
  return -1;
}

/// Whether an entry finds its parameters and its setting where `kept` has them.
template <class entry, class kept> constexpr bool agrees() {
  bool all = true;
  for (auto name : {"table", "head.weight", "head.bias", "shift"})
    all = all && offset<kept>(name) >= 0 && offset<entry>(name) == offset<kept>(name);
  return all;
}
template <class entries, class kept> constexpr bool all_agree() {
  return agrees<typename entries::evaluate, kept>() && agrees<typename entries::predict, kept>() &&
         agrees<typename entries::generate, kept>();
}
using trained = ct::trainer<with_an_objective, ct::optimizer::sgd>;
using loaded = ct::inference<with_an_objective>;
using trained_with_fewer = ct::trainer<with_fewer, ct::optimizer::sgd>;
static_assert(offset<trained::entries::step>("mix.weight") >= 0 && offset<trained::entries::predict>("mix.weight") < 0);
static_assert(all_agree<trained::entries, trained::entries::step>());
static_assert(all_agree<loaded::entries, loaded::entries::evaluate>());
static_assert(all_agree<trained_with_fewer::entries, trained_with_fewer::entries::step>());

/// An objective with a setting; predict does not have it.
struct weighted_objective {
  constexpr value operator()(value logits, value labels) const {
    return ct::causal_lm()(logits, labels) * ct::setting(logits, "loss_weight", 1);
  }
};
using with_two_settings =
    ct::trainer<ct::task<shifted_logits{}, weighted_objective, two>, ct::optimizer::sgd, own::shift>;
using predicted = with_two_settings::entries::predict;
using stepped = with_two_settings::entries::step;
static_assert(offset<predicted>("loss_weight") < 0 && offset<stepped>("loss_weight") >= 0);
static_assert(offset<stepped>("of_the_pass") > offset<stepped>("loss_weight"));
static_assert(offset<predicted>("of_the_pass") == offset<stepped>("of_the_pass"));

/// As many layers as sequences.
struct as_deep_as_the_batch {
  constexpr value operator()(value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 5, .width = 4});
    auto const layers = static_cast<int>(tokens.shape().extent[0]);
    return ct::linear("head", ct::repeat("block", layers, x, [](value y) { return y + ct::linear("up", y, 4); }), 5);
  }
};
using with_layers = ct::task<as_deep_as_the_batch{}, ct::causal_lm, two>;
constexpr ct::program of_step = with_layers::build(ct::entry::step, ct::dtype::f32);
static_assert(ct::detail::shares_persistent_values(with_layers::build(ct::entry::predict, ct::dtype::f32), of_step));
// Entries whose parameters have another type, or stacks of another number of layers, have no common buffers.
static_assert(!ct::detail::shares_persistent_values(with_layers::build(ct::entry::predict, ct::dtype::f64), of_step));
static_assert(!ct::detail::shares_persistent_values(with_layers::build(ct::entry::generate, ct::dtype::f32), of_step));

} // namespace

TEST_CASE("predict reads a setting, not the parameters of the objective, in its place") {
  trained t;
  std::vector<std::int32_t> const tokens{0, 1, 2, 3, 4, 0};
  auto const before = t.predict(tokens).logits;
  t.set("shift", 1024);
  auto const after = t.predict(tokens).logits;
  REQUIRE(before.size() == 30);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] - before[i] == doctest::Approx(1024));
}
