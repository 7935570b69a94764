#include <constrain/policy/optimizer/optimizer.hpp>

#include <string>

// The requirements of an optimizer, positive and negative.

using namespace constrain;

namespace {

static_assert(is_optimizer<optimizer::adamw> && is_optimizer<optimizer::sgd> && is_optimizer<optimizer::momentum> &&
              is_optimizer<optimizer::nesterov> && is_optimizer<optimizer::adam>);
static_assert(is_optimizer<optimizer::adafactor> && is_optimizer<optimizer::adafactor_relative_step> &&
              is_optimizer<optimizer::adafactor_with_momentum>);
static_assert(value_of<optimizer::adafactor>() == slot_of::optimizer{});

struct whole {
  struct hyper {
    float learning_rate = 1e-3f;
  };
  template <class real> struct state { real velocity; };
  template <class real> static real update(real weight, real gradient, state<real>&, hyper const& h, optimizer_step) {
    return weight - real(h.learning_rate) * gradient;
  }
};
static_assert(is_optimizer<whole>);

struct without_hyper {
  template <class real> using state = whole::state<real>;
  template <class real> static real update(real weight, real, state<real>&, int, optimizer_step) { return weight; }
};
struct hyper_with_a_string : whole {
  struct hyper {
    std::string name;
  };
  template <class real> static real update(real weight, real, state<real>&, hyper const&, optimizer_step) {
    return weight;
  }
};
struct hyper_without_defaults : whole {
  struct hyper {
    hyper(float rate) : learning_rate(rate) {}
    float learning_rate;
  };
};
struct without_state {
  using hyper = whole::hyper;
  template <class real> static real update(real weight, real, hyper const&, optimizer_step) { return weight; }
};
struct without_update {
  using hyper = whole::hyper;
  template <class real> using state = whole::state<real>;
};
struct update_without_the_step : without_update {
  template <class real> static real update(real weight, real, state<real>&, hyper const&) { return weight; }
};
static_assert(!is_optimizer<int> && !is_optimizer<without_hyper> && !is_optimizer<hyper_with_a_string> &&
              !is_optimizer<hyper_without_defaults>);
static_assert(!is_optimizer<without_state> && !has_state<without_state> && optimizer_like<without_state>);
static_assert(!is_optimizer<without_update> && has_state<without_update> && !has_update<without_update>);
static_assert(!is_optimizer<update_without_the_step>);

// The values of these optimizers in the slot.
static_assert(value_of<whole>() == slot_of::optimizer{});
static_assert(value_of<without_state>() == slot_of::optimizer{.has_state = false});
static_assert(value_of<without_update>() == slot_of::optimizer{.has_update = false});

// So are the values of wrappers around them, unless the wrapper checks what it wraps.
template <class O> constexpr auto averaged_muon = value_of<optimizer::averaged<optimizer::muon<O>>>();
static_assert(averaged_muon<whole> == slot_of::optimizer{});
static_assert(averaged_muon<without_state> == slot_of::optimizer{.has_state = false});
static_assert(averaged_muon<without_update> == slot_of::optimizer{.has_update = false});
static_assert(value_of<optimizer::in_backward<without_state>>() ==
              slot_of::optimizer{.has_state = false, .in_backward = true});
struct signed_without_state : without_state {
  static constexpr bool state_signed[] = {true};
};
static_assert(value_of<optimizer::averaged<optimizer::quantized<signed_without_state>>>() ==
              slot_of::optimizer{.base_fits = false});

} // namespace
