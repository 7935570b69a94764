#include "programs.hpp"

#include <constrain/pass/missing_kernels.hpp>
#include <constrain/pass/select.hpp>
#include <doctest/doctest.h>

#include <utility>

using namespace constrain;
using namespace constrain::test;

namespace {

/// A device with kernels for flash attention and for one of the fused ops, and one without any.
struct with_some {};
struct without_any {};

} // namespace

template <> struct constrain::kernel<op::flash_attention, with_some> {};
template <> struct constrain::kernel<op::flash_attention_gradient, with_some> {};
template <> struct constrain::kernel<op::add_layer_norm, with_some> {};

namespace {

static_assert(has_kernel<op::add_layer_norm, with_some> && !has_kernel<op::add_layer_norm, without_any>);
static_assert(!has_kernel<op::layer_norm_gradient_add, with_some>);

template <class device_> struct source_for { using device = device_; };
struct source_without_device {};

// Which ops a device has no kernel for; a source without a device has all.
template <class source>
constexpr auto missing_in = missing_of<source, op::add_layer_norm, op::layer_norm_gradient_add>();
static_assert(!missing_in<source_for<with_some>>.contains(info_of<op::add_layer_norm>));
static_assert(missing_in<source_for<with_some>>.contains(info_of<op::layer_norm_gradient_add>));
static_assert(missing_in<source_for<without_any>>.contains(info_of<op::add_layer_norm>));
static_assert(!missing_in<source_without_device>.contains(info_of<op::add_layer_norm>));

// Of more missing ops than a set can list, none is taken for one with a kernel.
template <int number> struct numbered {
  static constexpr char const* name = "numbered";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
template <int number> struct numbered_gradient : numbered<number> { using with_bias_gradient = numbered<number>; };
template <int... numbers> constexpr op_set missing_numbers(std::integer_sequence<int, numbers...>) {
  return missing_of<source_for<without_any>, numbered<numbers>...>();
}
constexpr auto sixteen = missing_numbers(std::make_integer_sequence<int, 16>{});
constexpr auto seventeen = missing_numbers(std::make_integer_sequence<int, 17>{});
static_assert(sixteen.contains(info_of<numbered<15>>) && !sixteen.contains(info_of<numbered<16>>));
static_assert(seventeen.contains(info_of<numbered<15>>) && seventeen.contains(info_of<numbered<16>>));
template <int... numbers> constexpr program calling(std::integer_sequence<int, numbers...>) {
  builder b;
  ref const x{b.new_value({dtype::f32, shape(2, 4)}, role::input, 0), at::current};
  (b.call<numbered_gradient<numbers>>({x}), ...);
  return b.program;
}
static_assert(detail::bias_gradient_ops(calling(std::make_integer_sequence<int, 17>{})).size() == 17);

// Attention: a policy that only asks keeps the reference; one that demands does not.
constexpr program attends = built<gpt2_task>();
constexpr int flash_calls(slot_of::attention attention, op_set const& missing) {
  return calls(constrain::select_attention(attends, attention, missing), &info_of<op::flash_attention>);
}
constexpr auto flash_is_missing = detail::missing_for_attention<source_for<without_any>>();
static_assert(flash_calls(attention::automatic::value, {}) == 1);
static_assert(flash_calls(attention::automatic::value, detail::missing_for_attention<source_for<with_some>>()) == 1);
static_assert(flash_calls(attention::automatic::value, flash_is_missing) == 0);
static_assert(flash_calls(attention::flash::value, flash_is_missing) == 1);
static_assert(flash_calls(attention::reference::value, {}) == 0);

// Fusion: op by op.
constexpr program separate = updated(built<gpt2_task>());
struct passes {
  struct set {
    using fusion = constrain::fusion::automatic;
  };
  static constexpr decltype(auto) before_fusion() { return (separate); }
};
template <class device>
constexpr auto fused_for = constrain::fuse(separate, fusion::automatic::value,
                                           detail::missing_for_fusion<source_for<device>, passes>());
using bias_op = op::elementwise_gradient_bias<op::gelu_tanh>;
constexpr program all = constrain::fuse(separate, fusion::automatic::value);
static_assert(calls(all, &info_of<op::dropout_add_layer_norm>) > 0 &&
              calls(all, &info_of<op::layer_norm_gradient_add>) > 0);
static_assert(calls(all, &info_of<bias_op>) == 1);
static_assert(calls(fused_for<with_some>, &info_of<op::add_layer_norm>) ==
              calls(all, &info_of<op::dropout_add_layer_norm>));
static_assert(calls(fused_for<with_some>, &info_of<op::layer_norm_gradient_add>) == 0);
static_assert(calls(fused_for<with_some>, &info_of<bias_op>) == 0);
static_assert(same(fused_for<without_any>, separate));

// A policy that demands fusion gets it, with or without kernels.
constexpr auto everything_is_missing = detail::missing_for_fusion<source_for<without_any>, passes>();
static_assert(everything_is_missing.contains(info_of<bias_op>));
static_assert(everything_is_missing.contains(info_of<op::layer_norm_gradient_add>));
static_assert(same(constrain::fuse(separate, fusion::all::value, everything_is_missing),
                   constrain::fuse(separate, fusion::all::value)));

} // namespace

TEST_CASE("passes that ask choose no op without a kernel for the device") {
  CHECK(print(fused_for<without_any>) == print(separate));
}
