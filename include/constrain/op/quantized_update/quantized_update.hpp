#pragma once

#include "constrain/op/quantized_update/dynamic_map.hpp"
#include "constrain/op/update/update.hpp"

#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Whether `state_signed` of an optimizer has one value per field of its `state`; true if the optimizer lacks either.
template <class optimizer> constexpr bool state_signed_fits() {
  if constexpr (requires {
                  optimizer::state_signed;
                  typename optimizer::template state<float>;
                })
    return static_cast<int>(std::size(optimizer::state_signed)) == state_fields<optimizer>();
  else return true;
}

/// Whether field `i` of an optimizer's state may be negative: `state_signed[i]`, or true if the optimizer has no
/// `state_signed` with one value per field.
template <class optimizer> constexpr bool state_is_signed(int i) {
  if constexpr (requires { optimizer::state_signed; } && state_signed_fits<optimizer>())
    return optimizer::state_signed[i];
  else return true;
}

namespace detail {

/// "<field>_scale": the name of the scales of a field. The field's name must have at most 250 characters.
class scale_name {
public:
  constexpr explicit scale_name(std::string_view field) {
    for (char c : field) characters_[length_++] = c;
    for (char c : std::string_view("_scale")) characters_[length_++] = c;
  }
  constexpr operator std::string_view() const { return {characters_, length_}; }

private:
  char characters_[256]{};
  std::size_t length_ = 0;
};

} // namespace detail

/// Options of `quantized_update`.
struct quantized_update_options {
  bool decays = false;       // whether weight decay applies to the parameter
  std::int64_t elements = 0; // elements of one tensor before sharding: of one layer, if layers are stacked
};

/// The update of one parameter, element by element, with 8-bit states (Dettmers et al. 2022, "8-bit Optimizers via
/// Block-wise Quantization"). Each block of 256 elements of a tensor has one scale per field of the state: the field's
/// largest magnitude in the block, or the largest finite float if an element is not finite in fp32. An element of the
/// field is scale * map[code], with the signed or unsigned `dynamic_map` (`state_is_signed`). `optimizer::update`
/// computes with the decoded values, in the type of the weight. The new weight is computed from the new state before
/// the state is rounded to the nearest codes.
///
/// Inputs: gradient, norm_and_scale [2] (op::clip_coefficient or op::tensor_scale), and `step_hyperparameters` as
/// bytes. Outputs, which are also read: the weight, the codes of each field (u8, in the shape of the weight), and the
/// scales of each field (f32, one per block). If the scale in norm_and_scale is 0, the outputs keep their values.
template <class optimizer> struct quantized_update {
  using options = quantized_update_options;
  static constexpr char const* name = "quantized_update";
  static constexpr unsigned accumulating = ~0u; // every output is also read
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;
  static constexpr int block = 256;                        // elements that share a scale
  static constexpr int fields = state_fields<optimizer>(); // number of fields of the optimizer's state

  /// Number of blocks of a tensor of `elements` elements; the last block may be shorter.
  static constexpr std::int64_t blocks(std::int64_t elements) { return (elements + block - 1) / block; }

  static constexpr inferred infer(operand_types const& in) {
    auto result = inferred::one(in[0].type, in[0].shape);
    for (int i = 0; i < fields; ++i) result = result.and_also(dtype::u8, in[0].shape);
    for (int i = 0; i < fields; ++i) result = result.and_also(dtype::f32, shape(blocks(in[0].shape.elements())));
    return result;
  }
};

namespace detail {

template <class optimizer, int... i>
constexpr void update_quantized(update_rule& rule, std::integer_sequence<int, i...>) {
  using op = quantized_update<optimizer>;
  auto const shape = rule.shape();
  constrain::shape const blocks(op::blocks(shape.elements()));
  rule.update_in_place<op>(
      {rule.gradient(), rule.scale(), rule.hyper()},
      {rule.parameter(),
       rule.state(state_name<optimizer>(i), shape, dtype::u8, dynamic_map::zero(state_is_signed<optimizer>(i)))...,
       rule.state(scale_name(state_name<optimizer>(i)), blocks, dtype::f32, 0, op::block)...},
      {.decays = has_weight_decay<typename optimizer::hyper>() && rule.decays(), .elements = shape.elements()});
}

} // namespace detail

/// Appends a parameter's update with 8-bit states. Each field of the state of `optimizer` is stored in two tensors: the
/// codes, with the field's name, and the scales, named "<field>_scale". Before the first step, the field is 0. Refused:
/// a `rule` that refers to a part of a parameter, and an `optimizer` that `update_by` refuses.
template <class optimizer> constexpr void update_quantized(update_rule& rule) {
  rule.needs_hyper(hyper_layout_of<optimizer>());
  detail::update_quantized<optimizer>(rule, std::make_integer_sequence<int, state_fields<optimizer>()>{});
}

} // namespace constrain::op
