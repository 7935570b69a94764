#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Every composition of three wrappers, around an element-wise optimizer and around one with a rule.

using namespace constrain;

namespace {

using small_task = task<gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 12, .context = 4}, causal_lm,
                        micro_batch{.sequences = 2}>;

/// A wrapper outside of the library, which changes nothing.
template <class O> struct unchanged {
  using base = O;
  struct hyper {
    typename O::hyper base{};
  };
  static constexpr void update(update_rule& u) { op::update_by<O>(u); }
};

/// A class derived from a wrapper counts as this wrapper, unless it says otherwise.
struct muon_again : optimizer::muon<optimizer::adamw> {};
struct own_muon : optimizer::muon<optimizer::adamw> {
  struct nests_at {};
};
static_assert(!detail::may_be_inside<muon_again, optimizer::muon<muon_again>>());
static_assert(detail::may_be_inside<own_muon, optimizer::muon<own_muon>>());

enum class wrapper { averaged, muon, by_role, quantized, states_in, in_backward, unchanged };

template <wrapper w, class O> auto wrap() {
  if constexpr (w == wrapper::averaged) return std::type_identity<optimizer::averaged<O>>{};
  else if constexpr (w == wrapper::muon) return std::type_identity<optimizer::muon<O>>{};
  else if constexpr (w == wrapper::by_role) return std::type_identity<optimizer::by_role<O>>{};
  else if constexpr (w == wrapper::quantized)
    return std::type_identity<optimizer::quantized<O, optimizer::everything>>{};
  else if constexpr (w == wrapper::states_in) return std::type_identity<optimizer::states_in<dtype::bf16, O>>{};
  else if constexpr (w == wrapper::in_backward) return std::type_identity<optimizer::in_backward<O>>{};
  else return std::type_identity<unchanged<O>>{};
}

/// Calls f.operator()<optimizer, wrappers of it from the outside...>() for `O` and every composition of at most
/// `depth` more wrappers around it.
template <int depth, class O, wrapper... inside, class function> void for_each_composition(function const& f) {
  f.template operator()<O, inside...>();
  if constexpr (depth > 0) {
    auto const around = [&]<wrapper w> {
      for_each_composition<depth - 1, typename decltype(wrap<w, O>())::type, w, inside...>(f);
    };
    [&]<int... w>(std::integer_sequence<int, w...>) { (around.template operator()<static_cast<wrapper>(w)>(), ...); }
    (std::make_integer_sequence<int, 7>{});
  }
}

// What a composition must be, from the list of its wrappers.

/// The place of a wrapper in the order; -1: it has none.
constexpr int place_of(wrapper w) { return std::array{0, 1, 2, 2, 3, -1, -1}[static_cast<std::size_t>(w)]; }

/// Whether the wrappers that need an element-wise optimizer have one: only `states_in` is one itself.
constexpr bool bases_fit(std::vector<wrapper> const& wrappers, bool is_elementwise) {
  for (auto w = wrappers.rbegin(); w != wrappers.rend(); ++w) {
    if (place_of(*w) >= 2 && !is_elementwise) return false;
    is_elementwise = *w == wrapper::states_in;
  }
  return true;
}
constexpr bool are_in_order(std::vector<wrapper> const& wrappers) {
  int last = -1;
  for (auto w : wrappers) {
    if (place_of(w) < 0) continue;
    if (place_of(w) <= last) return false;
    last = place_of(w);
  }
  return true;
}
constexpr bool is_outermost(std::vector<wrapper> const& wrappers) {
  for (std::size_t i = 1; i < wrappers.size(); ++i)
    if (wrappers[i] == wrapper::in_backward) return false;
  return true;
}
bool has(std::vector<wrapper> const& wrappers, wrapper one) {
  return std::find(wrappers.begin(), wrappers.end(), one) != wrappers.end();
}

/// The dtype of a state in fp32 training.
dtype type_of(std::string const& state, std::vector<wrapper> const& wrappers) {
  bool const is_of_base = state.starts_with("exp_avg") && !state.ends_with("_scale");
  if (is_of_base && has(wrappers, wrapper::quantized)) return dtype::u8;
  return is_of_base && has(wrappers, wrapper::states_in) ? dtype::bf16 : dtype::f32;
}

/// What is wrong in the updates of a program; "" if every trained parameter and every state is written once, each state
/// of a parameter has a name of its own and the dtype that the wrappers say, and the averages are complete.
std::string check_states(program const& p, std::vector<wrapper> const& wrappers) {
  std::vector<int> written(static_cast<std::size_t>(p.values.size()));
  for (auto const& n : p.nodes)
    for (auto const& output : n.outputs) ++written[static_cast<std::size_t>(output.value)];
  std::set<std::pair<int, std::string>> names;
  int parameters = 0, averages = 0, buffers = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    std::string const name(p.text(info.name));
    if (is_parameter(info.role)) ++parameters;
    if (info.role != role::state && !is_parameter(info.role)) continue;
    if (written[static_cast<std::size_t>(v)] != 1) return name + " is not written once";
    if (info.role != role::state) continue;
    if (!names.emplace(info.belongs_to, name).second) return "two states of a parameter have the name " + name;
    if (info.type != type_of(name, wrappers)) return name + " has another dtype";
    averages += info.is_average ? 1 : 0;
    buffers += name.starts_with("momentum_buffer") ? 1 : 0;
  }
  if (averages != (has(wrappers, wrapper::averaged) ? parameters : 0)) return "other parameters have an average";
  return (buffers > 0) == has(wrappers, wrapper::muon) ? "" : "muon's momentum is missing, or not expected";
}

/// Checks every composition of three wrappers around `base`. Returns the number of the legal ones.
template <class base> int check_compositions(program const& gradients) {
  int legal = 0;
  for_each_composition<3, base>([&]<class O, wrapper... list> {
    std::vector<wrapper> const wrappers{list...};
    CAPTURE(policy_name<O>());
    constexpr auto value = value_of<O>();
    CHECK(value.base_fits == bases_fit(wrappers, has_state<base>));
    CHECK(value.nests == are_in_order(wrappers));
    CHECK(value.is_outermost == is_outermost(wrappers));
    CHECK((value.has_state && value.has_update && value.type_fits && value.steps_fit));
    if constexpr (value.base_fits && value.nests && value.is_outermost) {
      ++legal;
      CHECK(value.in_backward == (!wrappers.empty() && wrappers.front() == wrapper::in_backward));
      auto const updated = update<O>(gradients);
      CHECK(updated.failure.ok());
      CHECK(check_states(updated, wrappers) == "");
    }
  });
  return legal;
}

// Classes that derive from a wrapper.
using optimizer::adamw, optimizer::averaged, optimizer::muon, optimizer::states_in;
template <class O> constexpr bool nests = value_of<O>().nests;

struct named_average : averaged<adamw> {};
struct named_muon : muon<averaged<adamw>> {};
static_assert(nests<named_average> && nests<averaged<unchanged<muon<>>>>);
static_assert(!nests<muon<named_average>> && !nests<averaged<named_average>> && !nests<named_muon>);

/// An element-wise wrapper that inherits the members of the optimizer.
template <class O> struct derived : O { using base = O; };
static_assert(nests<derived<states_in<dtype::bf16, adamw>>> &&
              nests<averaged<derived<derived<states_in<dtype::bf16, adamw>>>>>);
static_assert(!nests<states_in<dtype::bf16, derived<states_in<dtype::f32, adamw>>>>);

} // namespace

TEST_CASE("optimizer: every composition of three wrappers is refused, or has one update and complete states") {
  auto const built = small_task::build(entry::step, dtype::f32);
  auto const gradients = join_slices(differentiate(mixed_precision(built, value_of<precision::fp32>()), false));
  CHECK(check_compositions<adamw>(gradients) > 40);
  CHECK(check_compositions<optimizer::adafactor>(gradients) > 10);
}
