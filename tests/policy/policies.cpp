#include <constrain/policy/policies.hpp>
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <type_traits>

using namespace constrain;

namespace {

// Every slot has a default.
static_assert(std::is_same_v<policies<>::precision, precision::fp32>);
static_assert(std::is_same_v<policies<>::optimizer, optimizer::adamw>);
static_assert(std::is_same_v<policies<>::accumulation, accumulate<1>>);
static_assert(std::is_same_v<policies<>::checkpointing, checkpoint::none>);
static_assert(std::is_same_v<policies<>::parallelism, parallel::none>);
static_assert(std::is_same_v<policies<>::device, device::cpu>);
static_assert(std::is_same_v<policies<>::launching, launch::eager>);
static_assert(std::is_same_v<policies<>::attention, attention::automatic>);
static_assert(std::is_same_v<policies<>::fusion, fusion::automatic>);
static_assert(std::is_same_v<policies<>::target, cpu>);
// A default may depend on another slot.
struct on_cpu;
struct on_cuda;
struct by_device {
  template <class... list>
  using otherwise = std::conditional_t<policy_in<slot_of::device, list...>::value.is_cuda, on_cuda, on_cpu>;
};
static_assert(std::is_same_v<policy_in<by_device>, on_cpu>);
static_assert(std::is_same_v<policy_in<by_device, device::cuda<sm<90>>>, on_cuda>);

// The argument of passes: an aggregate with named fields.
static_assert(policies<accumulate<4>>::accumulation::value == slot_of::accumulation{.micro_batches = 4});
static_assert(checkpoint::every<2>::value == slot_of::checkpointing{.recomputes = true, .iterations = 2});
static_assert(checkpoint::every<5>::value.segment_length(12) == 5 && checkpoint::none::value.segment_length(12) == 0);
static_assert(checkpoint::sqrt::value.segment_length(1) == 1 && checkpoint::sqrt::value.segment_length(2) == 2);
static_assert(checkpoint::sqrt::value.segment_length(16) == 4 && checkpoint::sqrt::value.segment_length(17) == 5);
static_assert(!(checkpoint::every<2>::value == checkpoint::every<3>::value));
static_assert(value_of<optimizer::sgd>() == slot_of::optimizer{});

template <class a, class b>
inline constexpr bool same_policies = std::is_same_v<typename a::precision, typename b::precision>&& std::is_same_v<
    typename a::optimizer, typename b::optimizer>&& std::is_same_v<typename a::accumulation, typename b::accumulation>&&
    std::is_same_v<typename a::checkpointing, typename b::checkpointing>;

// The order is free: all 24 orders of four policies say the same.
using p = precision::fp64;
using o = optimizer::nesterov;
using a = accumulate<4>;
using c = checkpoint::every<2>;
using in_order = policies<p, o, a, c>;
static_assert(std::is_same_v<in_order::precision, p> && std::is_same_v<in_order::optimizer, o> &&
              std::is_same_v<in_order::accumulation, a> && std::is_same_v<in_order::checkpointing, c>);
template <class... list> inline constexpr bool as_in_order = same_policies<policies<list...>, in_order>;
static_assert(as_in_order<p, o, c, a> && as_in_order<p, a, o, c> && as_in_order<p, a, c, o> &&
              as_in_order<p, c, o, a> && as_in_order<p, c, a, o> && as_in_order<o, p, a, c> &&
              as_in_order<o, p, c, a> && as_in_order<o, a, p, c> && as_in_order<o, a, c, p> &&
              as_in_order<o, c, p, a> && as_in_order<o, c, a, p> && as_in_order<a, p, o, c> &&
              as_in_order<a, p, c, o> && as_in_order<a, o, p, c> && as_in_order<a, o, c, p> &&
              as_in_order<a, c, p, o> && as_in_order<a, c, o, p> && as_in_order<c, p, o, a> &&
              as_in_order<c, p, a, o> && as_in_order<c, o, p, a> && as_in_order<c, o, a, p> &&
              as_in_order<c, a, p, o> && as_in_order<c, a, o, p>);
static_assert(!same_policies<in_order, policies<>>);

// One's own optimizer needs no mark.
struct lion {
  template <class real> struct state { real momentum; };
  struct hyper {
    float learning_rate = 1e-4f;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, optimizer_step) {
    return weight - real(h.learning_rate) * (gradient > 0 ? 1 : -1);
  }
};
static_assert(std::is_same_v<policy_slot<lion>, slot_of::optimizer>);
static_assert(std::is_same_v<policies<a, lion>::optimizer, lion>);
static_assert(std::is_same_v<policy_slot<int>, slot_of::unknown>);
static_assert(count_in_slot<slot_of::optimizer, lion, a, optimizer::sgd> == 2);
static_assert(count_in_slot<slot_of::precision> == 0);

// Types that are policies, and types that are not.
struct no_value {
  using slot = slot_of::accumulation;
};
struct value_of_another_slot {
  using slot = slot_of::accumulation;
  static constexpr slot_of::fusion value{};
};
struct slot_without_rules {
  using slot = slot_without_rules;
  template <class...> using otherwise = slot_without_rules;
  friend constexpr bool operator==(slot_without_rules const&, slot_without_rules const&) = default;
};
struct slot_without_equality {
  template <class...> using otherwise = void;
  using rules = rule_list<>;
};
static_assert(is_policy<a> && is_policy<c> && is_policy<p> && is_policy<device::cuda<sm<90>>> &&
              is_policy<fusion::none>);
static_assert(is_policy<optimizer::adamw> && is_policy<lion>);
static_assert(!is_policy<int> && !is_policy<void> && !is_policy<no_value> && !is_policy<value_of_another_slot>);
static_assert(is_slot<slot_of::accumulation> && is_slot<slot_of::optimizer> && is_slot<slot_of::unknown>);
static_assert(!is_slot<a> && !is_slot<int> && !is_slot<slot_without_rules> && !is_slot<slot_without_equality>);
static_assert(std::is_same_v<policy_slot<no_value>, slot_of::unknown>);

// Every slot of the library is one, its examples are policies of it, and its default is among them.
template <class slot, class... examples> constexpr bool holds_examples(policy_list<examples...>) {
  return (std::is_same_v<policy_slot<examples>, slot> && ...) &&
         (std::is_same_v<examples, typename slot::template otherwise<>> || ...);
}
template <class first, class... rest> constexpr bool slots_are_whole(slot_list<first, rest...>) {
  return (holds_examples<rest>(typename rest::examples{}) && ...) && (is_slot<rest> && ...) && is_slot<first>;
}
static_assert(slots_are_whole(library_slots{}));

// A user's slot comes after the library's slots.
struct low;
struct mine {
  int level = 0;
  friend constexpr bool operator==(mine const&, mine const&) = default;
  template <class...> using otherwise = low;
  CONSTRAIN_RULE(not_with_accumulation, (mine const& m, slot_of::accumulation const& a),
                 m.level == 0 || a.micro_batches == 1, "mine: it is for accumulate<1>; leave one of them out");
  using rules = rule_list<not_with_accumulation>;
};
struct low {
  using slot = mine;
  static constexpr mine value{};
};
struct high {
  using slot = mine;
  static constexpr mine value{.level = 1};
};
static_assert(is_policy<high> && is_policy<low> && std::is_same_v<policies<high>::in<mine>, high>);
static_assert(std::is_same_v<policies<>::in<mine>, low>);
static_assert(broken_rule(composition_of<high>()) == nullptr);
static_assert(broken_rule(composition_of<a, high>())->name == std::string_view("not_with_accumulation"));
static_assert(broken_rule(composition_of<a, low>()) == nullptr);
static_assert(composition_of<high, o>() == composition_of<o, high>());

// A slot whose flags are false is like a slot without them.
struct usual;
struct with_flags {
  friend constexpr bool operator==(with_flags const&, with_flags const&) = default;
  template <class...> using otherwise = usual;
  using rules = rule_list<>;
  static constexpr bool always_named = false, free_on_resume = false;
};
struct usual {
  using slot = with_flags;
  static constexpr with_flags value{};
};
struct unusual : usual {};

} // namespace

TEST_CASE("the name of a list of policies") {
  CHECK(policies<>::name() == "fp32, adamw");
  CHECK(policies<c, a, o, p>::name() == "fp64, nesterov, accumulate<4>, checkpoint::every<2>");
  CHECK(policies<fusion::none, a>::name() == "fp32, adamw, accumulate<4>, fusion::none");
  CHECK(policies<lion, checkpoint::none, accumulate<1>>::name() == "fp32, lion");
  CHECK(policies<launch::eager, device::cpu, attention::reference>::name() == "fp32, adamw, attention::reference");
  CHECK(policies<high>::name() == "fp32, adamw, high");
  CHECK(policies<low>::name() == "fp32, adamw");
  CHECK(policies<usual>::name() == "fp32, adamw");
  CHECK(policies<unusual>::name() == "fp32, adamw, unusual");
  CHECK(policy_name<parallel::zero<3, 2>>() == "parallel::zero<3, 2>");
  CHECK(policy_name<device::cuda<sm<90>>>() == "device::cuda<sm<90>>");
}

TEST_CASE("a saved run goes on with the same policies of one's own, and with others of most of the library") {
  CHECK(policies<high, c, p>::kept_on_resume() == "high");
  CHECK(policies<unusual, c>::kept_on_resume() == "unusual");
  CHECK(policies<low, a, c, p, o>::kept_on_resume() == "");
}
