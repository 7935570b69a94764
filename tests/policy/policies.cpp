#include <constrain/policy/policies.hpp>
#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace constrain;

namespace {

// What is not said has its default.
static_assert(std::is_same_v<policies<>::precision, precision::fp32>);
static_assert(std::is_same_v<policies<>::optimizer, optimizer::adamw>);
static_assert(std::is_same_v<policies<>::accumulation, accumulate<1>>);
static_assert(std::is_same_v<policies<>::checkpointing, checkpoint::none>);
static_assert(std::is_same_v<policies<>::parallelism, parallel::none>);
static_assert(std::is_same_v<policies<>::device, device::cpu>);
static_assert(std::is_same_v<policies<>::launching, launch::eager>);
static_assert(std::is_same_v<policies<>::attention, attention::flash>);
static_assert(std::is_same_v<detail::chosen<device::cuda<sm<90>>>::attention, attention::reference>);
static_assert(std::is_same_v<policies<>::fusion, fusion::automatic>);
static_assert(std::is_same_v<detail::chosen<device::cuda<sm<90>>>::fusion, fusion::none>);

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
  template <class real> struct state {
    real momentum;
  };
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

} // namespace

TEST_CASE("the name of a list of policies") {
  CHECK(policies<>::name() == "fp32, adamw");
  CHECK(policies<c, a, o, p>::name() == "fp64, nesterov, accumulate<4>, checkpoint::every<2>");
  CHECK(policies<fusion::none, a>::name() == "fp32, adamw, accumulate<4>, fusion::none");
  CHECK(policies<lion, checkpoint::none, accumulate<1>>::name() == "fp32, lion");
}
