// Every kind of mask in both algorithms of attention, against a softmax over the pairs that the mask allows.

#include "check_gradients.hpp"
#include "op/quadratic_attention.hpp"
#include "relative_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using attention = ct::op::attention;
constexpr auto rule = ct::info_of<attention>;
constexpr auto flash_rule = ct::info_of<ct::op::flash_attention>;
constexpr auto q_type = f32(shape(2, 5, 12));

// What is refused, by both algorithms.
constexpr bool both_refuse(auto const& refused, ct::attention_options const& o, ct::operand_types const& in) {
  return refused(rule.infer(in, ct::pack(o))) && refused(flash_rule.infer(in, ct::pack(o)));
}
template <template <ct::diagnosis> class sentence> constexpr auto refusal(std::int64_t expected, std::int64_t got) {
  return [=](ct::inferred const& i) { return refuses<sentence>(i, expected, got); };
}
constexpr ct::operand_types with(ct::operand_type mask) { return types({q_type, q_type, q_type, mask}); }
constexpr auto without_mask = types({q_type, q_type, q_type});
constexpr ct::attention_options in_documents{.heads = 3, .documents = true};
static_assert(both_refuse(refusal<attention::window_is_negative>(0, -1), {.heads = 3, .window = -1}, without_mask));
static_assert(both_refuse(refusal<attention::positions_do_not_fit>(10, 0), in_documents, without_mask));
static_assert(both_refuse(refusal<attention::positions_do_not_fit>(10, 2), in_documents, with(i32(shape(2)))));
static_assert(both_refuse(refusal<attention::positions_do_not_fit>(10, 10), in_documents, with(f32(shape(2, 5)))));
static_assert(both_refuse(refusal<attention::lengths_do_not_fit>(2, 10), {.heads = 3}, with(i32(shape(2, 5)))));
static_assert(rule.infer(with(i32(shape(2, 5))), ct::pack(in_documents)).outputs[0] == q_type);
static_assert(flash_rule.infer(with(i32(shape(2, 5))), ct::pack(in_documents)).outputs[0] == q_type);
static_assert(rule.infer(without_mask, ct::pack(ct::attention_options{.heads = 3, .window = 9})).outputs.size() == 2);

// A window of w of n tokens leaves 1 - (1 - w / n)^2 of the scores.
constexpr double flops(int window, bool causal) {
  ct::attention_options const o{.heads = 3, .causal = causal, .window = window};
  auto const out = types({q_type, f32(shape(2, 3, 5))});
  return flash_rule.cost_of(without_mask, out, ct::pack(o)).flops;
}
static_assert(flops(0, true) == flops(5, true) && flops(0, true) == flops(100, true) &&
              flops(0, false) == flops(5, false));
static_assert(flops(1, false) > 0.35 * flops(0, false) && flops(1, false) < 0.37 * flops(0, false));
static_assert(flops(1, true) > 0.35 * flops(0, true) && flops(1, true) < 0.37 * flops(0, true));

template <class T> using real_of = ct::arithmetic<T>;

// The results of attention and its gradient, both for queries, keys and values side by side.
template <class T> struct attended {
  array<T> y, dqkv;
  std::vector<real_of<T>> logsumexp; // of flash attention

  attended(array<T> const& qkv, array<T> const& dy, ct::attention_options const& o, array<std::int32_t> const* mask,
           bool tiled)
      : y(dy.in().shape()), dqkv(qkv.in().shape()) {
    auto const of = qkv.in().shape();
    auto const attributes = ct::pack(o);
    ct::call const c{attributes, no_parameters};
    qkv_operands<T const> const x(qkv[0], of, o);
    qkv_operands<T> const dx(dqkv[0], of, o);
    if (!tiled) {
      array<real_of<T>> p(shape(of.extent[0], o.heads, of.extent[1], of.extent[1])), dp(p.in().shape());
      if (mask == nullptr) call_kernel<attention>(c, x.q(), x.k(), x.v(), y.out(), p.out());
      else call_kernel<attention>(c, x.q(), x.k(), x.v(), mask->in(), y.out(), p.out());
      call_kernel<ct::op::attention_gradient>(c, dy.in(), x.q(), x.k(), x.v(), p.in(), dx.q(), dx.k(), dx.v(),
                                              dp.out());
      return;
    }
    array<real_of<T>> sums(shape(of.extent[0], o.heads, of.extent[1]));
    auto const type = ct::dtype_of<T>;
    ct::operand_type const q{type, x.q().shape()}, k{type, x.k().shape()};
    ct::operand_type const rows{ct::dtype_of<real_of<T>>, sums.in().shape()};
    using gradient = ct::op::flash_attention_gradient;
    array<real_of<T>> scratch(ct::info_of<gradient>.infer(types({q, q, k, k, q, rows}), attributes).outputs[3].shape);
    if (mask == nullptr) {
      call_kernel<ct::op::flash_attention>(c, x.q(), x.k(), x.v(), y.out(), sums.out());
      call_kernel<gradient>(c, dy.in(), x.q(), x.k(), x.v(), y.in(), sums.in(), dx.q(), dx.k(), dx.v(), scratch.out());
    } else {
      call_kernel<ct::op::flash_attention>(c, x.q(), x.k(), x.v(), mask->in(), y.out(), sums.out());
      call_kernel<gradient>(c, dy.in(), x.q(), x.k(), x.v(), y.in(), sums.in(), mask->in(), dx.q(), dx.k(), dx.v(),
                            scratch.out());
    }
    logsumexp = sums.values();
  }
};

template <class T>
void check(mask_kind const& kind, std::int64_t sequences, std::int64_t tokens, std::int64_t width, int heads,
           int key_value_heads = 0) {
  auto const o = kind.options(heads, key_value_heads);
  shape const of(sequences, tokens, (heads + 2 * ct::detail::key_value_heads(o)) * width);
  auto const qkv = array<T>::random(of, 1), dy = array<T>::random(of.with_features(heads * width), 2);
  plain_attention const expected(qkv, dy, kind, heads, key_value_heads);
  auto const values = kind.values(sequences, tokens);
  array<std::int32_t> const mask(values.empty() ? shape(0) : kind.values_shape(sequences, tokens), values);
  auto const* const operand = values.empty() ? nullptr : &mask;
  CAPTURE(kind.name());
  CAPTURE(tokens);
  CAPTURE(width);
  CAPTURE(heads);
  CAPTURE(key_value_heads);
  attended<T> const reference(qkv, dy, o, operand, false);
  CHECK(relative_error(in_double(reference.y.values()), expected.y) < tolerance<T>);
  CHECK(relative_error(in_double(reference.dqkv.values()), expected.dqkv) < tolerance<T>);
  auto const read = kind.operand == mask_kind::lengths ? without_padding(qkv, o, values) : qkv;
  attended<T> const flash(read, dy, o, operand, true);
  CHECK(relative_error(in_double(flash.y.values()), expected.y) < tolerance<T>);
  CHECK(relative_error(in_double(flash.dqkv.values()), expected.dqkv) < tolerance<T>);
  CHECK(std::ranges::all_of(flash.logsumexp, [](auto x) { return std::isfinite(x); }));
}

} // namespace

TEST_CASE_TEMPLATE("masks: each kind in both algorithms, as a softmax over the pairs that it allows", T, float, double,
                   ct::float16, ct::bfloat16) {
  for (auto const& kind : mask_kinds()) {
    for (std::int64_t tokens : {1, 2, 7, 33, 64, 65, 130}) check<T>(kind, 5, tokens, 8, 1);
    check<T>(kind, 2, 257, 3, 2);
    check<T>(kind, 3, 100, 131, 2); // two chunks of columns
    check<T>(kind, 5, 70, 5, 4, 2); // heads that share keys and values
    check<T>(kind, 2, 65, 16, 4, 1);
  }
}
