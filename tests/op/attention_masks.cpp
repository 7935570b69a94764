// Every kind of mask in both algorithms of attention, against a softmax over the pairs that the mask allows.

#include "check_gradients.hpp"
#include "op/quadratic_attention.hpp"
#include "relative_error.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
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

namespace {

// Whether two tensors [sequences, tokens, features] have the same bits in all tokens except `begin` to `end` of each
// sequence.
template <class T> bool same_elsewhere(array<T> const& a, array<T> const& b, std::int64_t begin, std::int64_t end) {
  auto const s = a.in().shape();
  for (std::int64_t i = 0; i < s.elements(); ++i) {
    auto const token = i / s.features() % s.extent[1];
    auto const at = static_cast<std::size_t>(i);
    if ((token < begin || token >= end) && std::memcmp(&a[at], &b[at], sizeof(T)) != 0) return false;
  }
  return true;
}

} // namespace

TEST_CASE_TEMPLATE("masks: changing a document moves no bit of the others", T, float, double, ct::float16,
                   ct::bfloat16) {
  std::vector<std::int32_t> positions;
  for (int length : {41, 70, 39})
    for (int i = 0; i < length; ++i) positions.push_back(i);
  array<std::int32_t> const mask(shape(1, 150), positions);
  for (bool causal : {true, false})
    for (int window : {0, 20})
      for (bool tiled : {true, false}) {
        CAPTURE(causal);
        CAPTURE(window);
        CAPTURE(tiled);
        ct::attention_options const o{
            .heads = 4, .causal = causal, .key_value_heads = 2, .window = window, .documents = true};
        auto qkv = array<T>::random(shape(1, 150, 8 * 10), 1), dy = array<T>::random(shape(1, 150, 40), 2);
        attended<T> const before(qkv, dy, o, &mask, tiled);
        auto const other_qkv = array<T>::random(shape(1, 150, 8 * 10), 3, 4);
        auto const other_dy = array<T>::random(shape(1, 150, 40), 4, 4);
        for (std::size_t token = 41; token < 111; ++token) {
          for (std::size_t i = 0; i < 80; ++i) qkv[token * 80 + i] = other_qkv[token * 80 + i];
          for (std::size_t i = 0; i < 40; ++i) dy[token * 40 + i] = other_dy[token * 40 + i];
        }
        attended<T> const after(qkv, dy, o, &mask, tiled);
        CHECK(same_elsewhere(before.y, after.y, 41, 111));
        CHECK(same_elsewhere(before.dqkv, after.dqkv, 41, 111));
        CHECK_FALSE(same_elsewhere(before.y, after.y, 0, 0));
      }
}

namespace {

// Packed documents, with learned and rotary position embeddings that start anew with each document.
struct packed_model {
  bool causal;
  int window, key_value_heads, layers = 1;
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions"}};
  constexpr ct::value operator()(ct::value tokens, ct::value positions) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 80, .width = 8});
    x = x + ct::embedding("position", positions, {.vocabulary = 40, .width = 8});
    auto const angles = ct::rotary_table(x, {.head_width = 2});
    x = ct::repeat("block", layers, x, [&](ct::value h) {
      auto const y = ct::layer_norm("norm", h);
      auto const q = ct::rotary_embedding(ct::linear("query", y, 8), angles, positions);
      auto const k = ct::rotary_embedding(ct::linear("key", y, 2 * key_value_heads), angles, positions);
      auto const v = ct::linear("value", y, 2 * key_value_heads);
      ct::attention_options const options{
          .heads = 4, .causal = causal, .key_value_heads = key_value_heads, .window = window, .documents = true};
      return h + ct::linear("projection", ct::self_attention(q, k, v, positions, options), 8);
    });
    return ct::linear("head", x, 24);
  }
};
template <bool causal, int window, int tokens, int layers = 1>
using packed =
    ct::task<packed_model{causal, window, 2, layers}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = tokens}>;

struct windowed_model {
  bool causal;
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
    return ct::linear("head", ct::self_attention(x, lengths, {.heads = 2, .causal = causal, .window = 2}), 5);
  }
};
template <bool causal>
using windowed = ct::task<windowed_model{causal}, ct::causal_lm, ct::micro_batch{.sequences = 3, .tokens = 6}>;

void with_documents(random_arrays& arrays) { arrays.replace_input(1, some_positions(2, 6)); }
void with_short_lengths(random_arrays& arrays) { arrays.replace_input(1, {6, 0, 2}); }

} // namespace

TEST_CASE_TEMPLATE("masks: gradients", algorithm, ct::attention::reference, ct::attention::flash) {
  check_gradients<packed<true, 0, 6>, algorithm>(with_documents);
  check_gradients<packed<false, 2, 6>, algorithm>(with_documents);
  check_gradients<windowed<true>, algorithm>(with_short_lengths);
  check_gradients<windowed<false>, algorithm>(with_short_lengths);
}

namespace {

// What a step computes of one of two documents in each of two rows: of 25 and of 15 tokens.
template <class trainer> struct seen_by_document {
  int begin, end; // of the document, in both rows
  std::vector<float> logits;
  // Of the embeddings. In both rows, each token of the document occurs once: from 0 in the first row, from 25 in the
  // second.
  std::vector<double> gradient;

  // `kept`: whether the document is the first or the second. `other`: which other document the rows hold.
  seen_by_document(int kept, int other) : begin(kept == 0 ? 0 : 25), end(kept == 0 ? 25 : 40) {
    std::vector<std::int32_t> tokens, labels, positions;
    for (int i = 0; i < 2 * 40; ++i) {
      int const t = i % 40;
      bool const is_kept = t >= begin && t < end;
      tokens.push_back(is_kept ? i / 40 * 25 + t - begin : 50 + (i * (3 + other) + other) % 30);
      labels.push_back((is_kept ? i : i + other) % 24);
      positions.push_back(t < 25 ? t : t - 25);
    }
    trainer t;
    logits = t.predict({tokens, positions}).logits;
    t.step(t.batch({tokens, positions}, labels));
    auto const view = t.gradient("token.weight");
    gradient.resize(static_cast<std::size_t>(view.size()));
    view.copy_to(std::span<double>(gradient));
  }
  bool operator==(seen_by_document const& b) const {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      auto const t = static_cast<int>(i / 24 % 40);
      if (t >= begin && t < end && std::memcmp(&logits[i], &b.logits[i], sizeof(float)) != 0) return false;
    }
    return std::memcmp(gradient.data(), b.gradient.data(), 50 * 8 * sizeof(double)) == 0;
  }
};

} // namespace

TEST_CASE_TEMPLATE("masks: another document moves no bit of the logits and of the gradients of the embeddings", trainer,
                   ct::trainer<packed<true, 0, 40, 2>, ct::attention::reference>,
                   ct::trainer<packed<true, 0, 40, 2>, ct::attention::flash>,
                   ct::trainer<packed<false, 7, 40, 2>, ct::attention::flash, ct::precision::bf16>,
                   ct::trainer<packed<true, 7, 40, 2>, ct::attention::reference, ct::precision::fp16>) {
  for (int const kept : {0, 1}) {
    CAPTURE(kept);
    seen_by_document<trainer> const before(kept, 0), after(kept, 1);
    CHECK(before == after);
    CHECK(before.logits != after.logits);
    CHECK(before.gradient[0] != 0);
  }
}

TEST_CASE("masks: a position beyond the tokens is refused") {
  ct::trainer<packed<true, 0, 6>> t;
  std::vector<std::int32_t> const tokens(12), labels(12);
  auto positions = some_positions(2, 6);
  t.step(t.batch({tokens, positions}, labels));
  positions[3] = 6;
  CHECK_THROWS_WITH(t.batch({tokens, positions}, labels),
                    "batch: the input \"positions\" is 6 at index 3, outside [0, 6); pass integers from 0 to 5");
}
