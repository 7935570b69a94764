#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/host_device.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Factors of the learning rate and of the weight decay for the parameters of one role. `decays`: whether weight decay
/// applies to the role by default.
template <bool decays> struct role_factors {
  float learning_rate = 1;             // at least 0; 0: the library's optimizers leave the role's parameters unchanged
  float weight_decay = decays ? 1 : 0; // at least 0
};

/// Gives the element-wise optimizer `O` a separate learning rate and weight decay for each role (program/role.hpp), as
/// parameter groups do in torch.optim. The factors of a role multiply `base.learning_rate` (after the schedule) and
/// `base.weight_decay`. If the hyperparameters of `O` have a field `base`, the factors also multiply the same fields of
/// `base.base`, and so on. With the default factors, training gives the same weights as with `O`, bit for bit.
///
///     using optimizer = ct::optimizer::by_role<ct::optimizer::adamw>;
///     optimizer::hyper h{.base = {.learning_rate = 1e-3f, .weight_decay = 0.1f},
///                        .embedding = {.learning_rate = 10, .weight_decay = 0}};
///
/// `by_role<O>` has the same states as `O`.
template <class O> struct by_role {
  static constexpr bool base_fits = has_state<O> && has_update<O> && !has_update_rule<O>; // else a compile-time error
  using base = O; // in output and saved runs, the name is "by_role<...>" with the name of the base
  /// The level of this wrapper in the order of nesting (`nesting_level`).
  using nests_at = constrain::detail::nesting<by_role, constrain::detail::nesting_level::by_role_or_quantized>;
  static constexpr char const* name = "by_role";

  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    typename O::hyper base{};       // hyperparameters of `O`, for all roles
    role_factors<true> weight{};    // for role::weight
    role_factors<false> bias{};     // for role::bias
    role_factors<false> norm{};     // for role::norm
    role_factors<true> embedding{}; // for role::embedding
    role_factors<true> head{};      // for role::head
  };
  /// Throws `error` if a factor is outside its range, or if its product with the hyperparameter of `base` is not
  /// finite. Also throws the errors of the `check` of `O`.
  static void check(hyper const& h) {
    if constexpr (requires { O::check(h.base); }) O::check(h.base);
    auto const check_factors = [&h](char const* rate, char const* decay, auto const& factors) {
      check_number(name, rate, factors.learning_rate, number_range::from_zero);
      check_number(name, decay, factors.weight_decay, number_range::from_zero);
      check_products(rate, decay, multiplied(h.base, factors));
    };
    check_factors(".weight.learning_rate", ".weight.weight_decay", h.weight);
    check_factors(".bias.learning_rate", ".bias.weight_decay", h.bias);
    check_factors(".norm.learning_rate", ".norm.weight_decay", h.norm);
    check_factors(".embedding.learning_rate", ".embedding.weight_decay", h.embedding);
    check_factors(".head.learning_rate", ".head.weight_decay", h.head);
  }

  /// Calls `visit(hyper of O)` for each role, with the role's factors applied.
  template <class visitor> static void for_each_role(hyper const& h, visitor const& visit) {
    visit(multiplied(h.base, h.weight)), visit(multiplied(h.base, h.bias)), visit(multiplied(h.base, h.norm));
    visit(multiplied(h.base, h.embedding)), visit(multiplied(h.base, h.head));
  }

  /// The hyperparameters of `O` in one step, for each role.
  template <class real> struct prepared {
    typename op::step_hyperparameters<O, real>::prepared weight, bias, norm, embedding, head; // one per role
  };

  /// The hyperparameters of step t, computed on the host. t counts from 1.
  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
    auto const prepare_role = [&](auto const& factors) {
      return op::step_hyperparameters<O, real>::prepare(multiplied(h.base, factors), t);
    };
    return {prepare_role(h.weight), prepare_role(h.bias), prepare_role(h.norm), prepare_role(h.embedding),
            prepare_role(h.head)};
  }

  /// `O` for the parameters of one role: an element-wise optimizer that selects the role's hyperparameters from
  /// `prepared`.
  template <role r> struct of : O {
    using base = O;
    using hyper = by_role::hyper;
    /// The same as `by_role::prepare`.
    template <class real> static prepared<real> prepare(hyper const& h, optimizer_step t) {
      return by_role::prepare<real>(h, t);
    }
// O may lack CT_HOST_DEVICE (see op/update/update.hpp).
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_error 20011, 20013, 20014, 20015
#endif
    /// Updates the state and returns the new weight.
    template <class real>
    CT_HOST_DEVICE static real update(real weight, real gradient, typename O::template state<real>& s,
                                      prepared<real> const& h, optimizer_step t) {
      return O::template update<real>(weight, gradient, s, select(h), t);
    }
#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

  private:
    template <class real> CT_HOST_DEVICE static auto const& select(prepared<real> const& h) {
      if constexpr (r == role::bias) return h.bias;
      else if constexpr (r == role::norm) return h.norm;
      else if constexpr (r == role::embedding) return h.embedding;
      else if constexpr (r == role::head) return h.head;
      else return h.weight;
    }
  };

  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) {
    if constexpr (base_fits) {
      switch (u.role()) {
      case role::bias: return op::update_by<of<role::bias>>(u);
      case role::norm: return op::update_by<of<role::norm>>(u);
      case role::embedding: return op::update_by<of<role::embedding>>(u);
      case role::head: return op::update_by<of<role::head>>(u);
      default: return op::update_by<of<role::weight>>(u);
      }
    }
  }

private:
  /// Throws `error` if `product` is not finite. `product`: the factor `field` times the hyperparameter of the same name
  /// in `base_path`, which is ".base", or ".base.base" for the base of the base.
  static void check_product(char const* field, double product, std::string const& base_path) {
    if (!constrain::detail::is_finite(product))
      throw error({name, ": ", field, " times the same field of ", base_path, " is ",
                   constrain::detail::number_text(product), "; give them values whose product is finite"});
  }

  /// Calls `check_product` for the fields `learning_rate` and `weight_decay` of `products`, and of the `base` of
  /// `products`, if these fields exist.
  template <class hyper_of_base>
  static void check_products(char const* rate, char const* decay, hyper_of_base const& products,
                             std::string const& base_path = ".base") {
    if constexpr (requires { products.learning_rate; }) check_product(rate, products.learning_rate, base_path);
    if constexpr (requires { products.weight_decay; }) check_product(decay, products.weight_decay, base_path);
    if constexpr (requires { products.base; }) check_products(rate, decay, products.base, base_path + ".base");
  }

  /// Multiplies the fields `learning_rate` and `weight_decay` of `h` and of `h.base`, if these fields exist, by the
  /// factors of a role.
  template <class hyper_of_base, class factors> static void multiply(hyper_of_base& h, factors const& multipliers) {
    if constexpr (requires { h.learning_rate *= multipliers.learning_rate; })
      h.learning_rate *= multipliers.learning_rate;
    if constexpr (requires { h.weight_decay *= multipliers.weight_decay; }) h.weight_decay *= multipliers.weight_decay;
    if constexpr (requires { h.base; }) multiply(h.base, multipliers);
  }
  /// `h` after `multiply`.
  template <class hyper_of_base, class factors>
  static hyper_of_base multiplied(hyper_of_base h, factors const& multipliers) {
    multiply(h, multipliers);
    return h;
  }
};

template <class O>
  requires(!constrain::detail::can_be_wrapped<O>)
struct by_role<O> : constrain::detail::wraps_no_optimizer {};

} // namespace constrain::optimizer
