#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <complex>
#include <numbers>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::rotary_embedding>;
constexpr auto table_rule = ct::info_of<ct::op::rotary_table>;
constexpr auto x_type = f32(shape(2, 5, 24)), table_type = f32(shape(5, 8));
constexpr auto infer_table(ct::rotary_options const& o) { return table_rule.infer(types({x_type}), ct::pack(o)); }
constexpr auto table_outputs = infer_table({.head_width = 8}).outputs;
static_assert(table_outputs.size() == 1 && table_outputs[0] == table_type);
static_assert(table_rule
                  .infer(types({{ct::dtype::bf16, shape(2, 5, 24)}}), ct::pack(ct::rotary_options{.head_width = 8}))
                  .outputs[0] == table_type);
static_assert(refuses<ct::op::rotary_table::head_width_is_odd>(infer_table({.head_width = 7}), 2, 7));
static_assert(refuses<ct::op::rotary_table::head_width_is_odd>(infer_table({}), 2, 0));
template <ct::rotary_options o>
constexpr bool out_of_range = refuses<ct::op::rotary_table::frequencies_are_out_of_range>(infer_table(o), 0, 0);
static_assert(out_of_range<{.head_width = 8, .theta = 0}> && out_of_range<{.head_width = 8, .theta = 1e31}>);
static_assert(out_of_range<{.head_width = 8, .factor = 0.5}> &&
              out_of_range<{.head_width = 8, .original_context = -1}>);
static_assert(out_of_range<{.head_width = 8, .low_freq_factor = 4, .high_freq_factor = 4}>);
static_assert(out_of_range<{.head_width = 8, .theta = std::numeric_limits<double>::quiet_NaN()}>);
static_assert(refuses<ct::op::integers_instead_of_floats>(
    table_rule.infer(types({i32(shape(2, 5, 1))}), ct::pack(ct::rotary_options{.head_width = 8})), 0, 0));

constexpr auto infer(shape x, shape table, int head_width) {
  return rule.infer(types({f32(x), f32(table)}), ct::pack(ct::op::rotary_embedding::options{.head_width = head_width}));
}
constexpr auto infer(shape x, shape table) { return infer(x, table, static_cast<int>(table.features())); }
static_assert(infer(shape(2, 5, 24), shape(5, 8)).outputs[0] == x_type);
static_assert(infer(shape(2, 5, 24), shape(7, 8)).outputs[0] == x_type);
static_assert(refuses<ct::op::rotary_embedding::table_is_too_short>(infer(shape(2, 5, 24), shape(4, 8)), 4, 5));
static_assert(refuses<ct::op::rotary_embedding::heads_do_not_fit_the_table>(infer(shape(2, 5, 20), shape(5, 8)), 8,
                                                                            20));
static_assert(refuses<ct::op::rotary_embedding::table_width_is_odd>(infer(shape(2, 5, 25), shape(5, 5)), 0, 5));
static_assert(refuses<ct::op::widths_differ>(infer(shape(2, 5, 24), shape(5, 8), 4), 8, 4));
constexpr auto infer_at(ct::operand_type positions) {
  return rule.infer(types({f32(shape(2, 5, 24)), f32(shape(4, 8)), positions}),
                    ct::pack(ct::op::rotary_embedding::options{.head_width = 8}));
}
static_assert(infer_at(i32(shape(2, 5))).outputs[0] == x_type); // positions may be fewer than tokens
static_assert(refuses<ct::op::rotary_embedding::positions_do_not_fit>(infer_at(i32(shape(5))), 10, 5));
static_assert(refuses<ct::op::rotary_embedding::positions_do_not_fit>(infer_at(f32(shape(2, 5))), 10, 10));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(infer(shape(5, 24), shape(5, 8)), 3, 2));
static_assert(refuses<ct::op::rotary_embedding::table_is_not_a_matrix>(infer(shape(2, 5, 24), shape(2, 5, 8)), 2, 3));
static_assert(rule.strided_inputs == 0b1 && rule.strided_outputs == 0b1 && rule.in_place == 0b1);

/// Whether two ranks can divide a call with this head width whose x has these parts.
constexpr bool divides(int head_width, ct::part_list const& parts) {
  ct::op::rotary_embedding::options o{.head_width = head_width};
  ct::division d{.ranks = 2, .dimensions = 3, .parts = parts};
  return ct::op::rotary_embedding::divide(o, d);
}
static_assert(divides(6, {24}) && divides(6, {24, 12}) && !divides(6, {18}) && !divides(6, {24, 6}));

/// Llama 3.1's scaling, with a context so short that a table of 40 tokens has frequencies of all three kinds.
constexpr ct::rotary_options scaled{.head_width = 12, .theta = 500, .factor = 8, .original_context = 64};

/// Grouped-query attention. Queries and keys are parts of one matmul's result, or results of their own, over which the
/// kernel writes.
template <bool together> struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
    auto const table = ct::rotary_table(x, {.head_width = 6, .theta = 20});
    x = ct::repeat("block", 3, x, [&](ct::value h) {
      ct::value q = h, k = h, v = h;
      if (together) {
        auto const qkv = ct::linear("qkv", h, 24);
        q = ct::slice(qkv, 2, 0, 12), k = ct::slice(qkv, 2, 12, 6), v = ct::slice(qkv, 2, 18, 6);
      } else {
        q = ct::linear("q", h, 12), k = ct::linear("k", h, 6), v = ct::linear("v", h, 6);
      }
      q = ct::rotary_embedding(q, table), k = ct::rotary_embedding(k, table);
      return h + ct::self_attention(q, k, v, {.heads = 2, .key_value_heads = 1});
    });
    return ct::linear("head", x, 5);
  }
};
template <bool together>
using task = ct::task<model<together>{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

template <class real> array<real> table_of(ct::rotary_options const& o, std::int64_t tokens) {
  array<real> table(shape(tokens, o.head_width));
  array<real> const x(shape(1, tokens, 1));
  auto const options = ct::pack(o);
  call_kernel<ct::op::rotary_table>(ct::call{options, no_parameters}, x.in(), table.out());
  return table;
}
template <class real>
void turn(ct::tensor<real const> x, array<ct::arithmetic<real>> const& table, ct::tensor<real> y, bool back = false) {
  auto const options = ct::pack(ct::op::rotary_embedding::options{.back = back});
  call_kernel<ct::op::rotary_embedding>(ct::call{options, no_parameters}, x, table.in(), y);
}

/// Each pair as a complex number, multiplied by e^(i t f), with the frequencies of Transformers' "llama3" scaling.
std::vector<double> definition(std::vector<double> const& x, shape const& s, ct::rotary_options const& o) {
  auto const half = static_cast<std::size_t>(o.head_width / 2), width = static_cast<std::size_t>(s.features());
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size() / width; ++row)
    for (std::size_t head = 0; head < width / (2 * half); ++head)
      for (std::size_t j = 0; j < half; ++j) {
        long double f = 1 / std::pow(static_cast<long double>(o.theta), static_cast<long double>(j) / half);
        long double const length = 2 * std::numbers::pi_v<long double> / f, context = o.original_context;
        if (o.original_context == 0 || length > context / o.low_freq_factor) f /= o.factor;
        else if (length >= context / o.high_freq_factor) {
          long double const smooth = (context / length - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
          f = (1 - smooth) * f / o.factor + smooth * f;
        }
        auto const at = row * width + head * 2 * half + j;
        auto const token = static_cast<long double>(row % static_cast<std::size_t>(s.extent[1]));
        auto const turned = std::complex<long double>(x[at], x[at + half]) * std::polar(1.0L, token * f);
        y[at] = static_cast<double>(turned.real()), y[at + half] = static_cast<double>(turned.imag());
      }
  return y;
}

} // namespace

TEST_CASE("rotary_embedding: gradients") {
  check_gradients<task<true>>();
  check_gradients<task<false>, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE_TEMPLATE("rotary_embedding: as the paper and Transformers define it", real, float, double) {
  shape const s(2, 40, 36);
  auto const x = array<real>::random(s, 1);
  std::vector<double> const wide(x.values().begin(), x.values().end());
  for (auto const& o : {scaled, ct::rotary_options{.head_width = 12}, ct::rotary_options{.head_width = 6, .factor = 4},
                        ct::rotary_options{.head_width = 36, .theta = 1e6}}) {
    CAPTURE(o.head_width);
    auto const table = table_of<real>(o, 40);
    array<real> y(s), back(s);
    turn<real>(x.in(), table, y.out());
    CHECK(relative_error(y.values(), definition(wide, s, o)) < tolerance<real>);
    turn<real>(y.in(), table, back.out(), true);
    CHECK(relative_error(back.values(), wide) < tolerance<real>);
    auto over = x;
    turn<real>(over.in(), table, over.out());
    CHECK(same_bits(over.values(), y.values()));
    // A longer table has the same first rows.
    array<real> again(s);
    turn<real>(x.in(), table_of<real>(o, 50), again.out());
    CHECK(same_bits(again.values(), y.values()));
  }
}

TEST_CASE("rotary_embedding: Llama 3.1's scaling keeps high frequencies and divides low ones") {
  auto const plain_options = ct::rotary_options{.head_width = 12, .theta = 500};
  auto const with = table_of<double>(scaled, 2), without = table_of<double>(plain_options, 2);
  int kept = 0, divided = 0, between = 0;
  for (std::size_t j = 0; j < 6; ++j) {
    double const angle = std::asin(with[12 + 6 + j]), before = std::asin(without[12 + 6 + j]);
    double const ratio = before / angle;
    if (std::abs(ratio - 1) < 1e-12) ++kept;
    else if (std::abs(ratio - 8) < 1e-9) ++divided;
    else if (ratio > 1 && ratio < 8) ++between;
  }
  CHECK(kept > 0);
  CHECK(divided > 0);
  CHECK(between > 0);
  CHECK(kept + divided + between == 6);
}

TEST_CASE_TEMPLATE("rotary_embedding: scores depend only on the distance of tokens", real, double) {
  // The same query and key at every token.
  auto const one_q = array<real>::random(shape(1, 1, 8), 1), one_k = array<real>::random(shape(1, 1, 8), 2);
  std::vector<real> all_q, all_k;
  for (int t = 0; t < 9; ++t) {
    all_q.insert(all_q.end(), one_q.values().begin(), one_q.values().end());
    all_k.insert(all_k.end(), one_k.values().begin(), one_k.values().end());
  }
  shape const s(1, 9, 8);
  array<real> const q(s, all_q), k(s, all_k);
  auto const table = table_of<real>({.head_width = 8, .theta = 100}, 9);
  array<real> turned_q(s), turned_k(s);
  turn<real>(q.in(), table, turned_q.out()), turn<real>(k.in(), table, turned_k.out());
  auto const score = [&](std::size_t i, std::size_t j) {
    real sum = 0;
    for (std::size_t e = 0; e < 8; ++e) sum += turned_q[i * 8 + e] * turned_k[j * 8 + e];
    return sum;
  };
  for (std::size_t distance = 0; distance < 5; ++distance)
    for (std::size_t j = 0; j + distance < 9; ++j)
      CHECK(score(j + distance, j) == doctest::Approx(score(distance, 0)).epsilon(1e-12));
}

TEST_CASE_TEMPLATE("rotary_embedding: rows of a wider tensor, and no element beside them", real, ct::float16,
                   ct::bfloat16, float, double) {
  shape const wide(2, 5, 20), s(2, 5, 12);
  auto const qkv = array<real>::random(wide, 1);
  std::vector<real> cut;
  for (std::size_t i = 0; i < 10; ++i)
    cut.insert(cut.end(), qkv.values().begin() + static_cast<std::ptrdiff_t>(i * 20 + 4),
               qkv.values().begin() + static_cast<std::ptrdiff_t>(i * 20 + 16));
  array<real> const x(s, cut);
  auto const table = table_of<ct::arithmetic<real>>({.head_width = 6}, 5);
  array<real> y(s), from_rows(s);
  turn<real>(x.in(), table, y.out());
  turn<real>({qkv.values().data() + 4, &s, s.elements(), 20}, table, from_rows.out());
  CHECK(same_bits(from_rows.values(), y.values()));
  auto into_rows = array<real>(wide, std::vector<double>(200, 0.5));
  turn<real>(x.in(), table, {into_rows.out().data + 4, &s, s.elements(), 20});
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t j = 0; j < 20; ++j) {
      auto const expected = j < 4 || j >= 16 ? ct::arithmetic<real>(0.5) : ct::arithmetic<real>(y[i * 12 + j - 4]);
      CHECK(ct::arithmetic<real>(into_rows[i * 20 + j]) == expected);
    }
}

TEST_CASE_TEMPLATE("rotary_embedding: positions that start anew, as separate sequences", real, float, double,
                   ct::bfloat16) {
  shape const packed(1, 9, 16), first(1, 4, 16), second(1, 5, 16);
  auto const x = array<real>::random(packed, 1);
  array<std::int32_t> const positions(shape(1, 9), {0, 1, 2, 3, 0, 1, 2, 3, 4});
  using accumulate = ct::arithmetic<real>;
  auto const table = array<accumulate>::random(shape(9, 8), 2);
  auto const options = ct::pack(ct::op::rotary_embedding::options{.head_width = 8});
  ct::call const c{options, no_parameters};
  array<real> y(packed), of_first(first), of_second(second);
  call_kernel<ct::op::rotary_embedding>(c, x.in(), table.in(), positions.in(), y.out());
  auto const part = [&](std::size_t begin, std::size_t end, shape const& s) {
    auto const at = [&](std::size_t token) { return x.values().begin() + static_cast<std::ptrdiff_t>(token * 16); };
    return array<real>(s, std::vector<real>(at(begin), at(end)));
  };
  call_kernel<ct::op::rotary_embedding>(c, part(0, 4, first).in(), table.in(), of_first.out());
  call_kernel<ct::op::rotary_embedding>(c, part(4, 9, second).in(), table.in(), of_second.out());
  auto expected = of_first.values();
  expected.insert(expected.end(), of_second.values().begin(), of_second.values().end());
  CHECK(same_bits(y.values(), expected));
}

TEST_CASE_TEMPLATE("rotary_embedding: bit-identical on any number of threads", real, float, double) {
  shape const s(3, 43, 100);
  auto const x = array<real>::random(s, 1);
  check_same_on_all_threads([&] {
    array<real> y(s);
    turn<real>(x.in(), table_of<real>({.head_width = 10}, 43), y.out());
    return y.values();
  });
}
