#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <string_view>

namespace ct = constrain;
using namespace constrain::test;
using ct::bfloat16;
using ct::float16;
using ct::shape;

namespace {

// The chunks: a tenth of the rows, in sixteens.
static_assert(ct::op::logit_rows(1) == 1 && ct::op::logit_rows(15) == 15 && ct::op::logit_rows(16) == 16);
static_assert(ct::op::logit_rows(159) == 16 && ct::op::logit_rows(319) == 16 && ct::op::logit_rows(320) == 32);
static_assert(ct::op::logit_rows(2048) == 192);
static_assert([] {
  for (std::int64_t rows = 160; rows < 5000; ++rows)
    if (10 * ct::op::logit_rows(rows) > rows) return false; // nine tenths are never stored
  return true;
}());

constexpr bool same(auto const& outputs, std::initializer_list<ct::operand_type> expected) {
  int j = 0;
  for (auto const& type : expected)
    if (j == outputs.size() || !(outputs[j++] == type)) return false;
  return j == outputs.size();
}

constexpr ct::operand_types as_operands(auto const& outputs) {
  ct::operand_types result;
  for (auto const& type : outputs) result.push_back(type);
  return result;
}

// The rules.
constexpr auto evaluation = ct::info_of<ct::op::linear_cross_entropy>;
constexpr auto step = ct::info_of<ct::op::linear_cross_entropy_forward_backward>;
constexpr auto operands = types({f32(shape(4, 80, 12)), f32(shape(7, 12)), i32(shape(4, 80))});
constexpr auto of_evaluation = evaluation.infer(operands, {}).outputs;
static_assert(same(of_evaluation, {f64(shape{}), f64(shape{}), f32(shape(32, 7)), f64(shape(320))}));
constexpr auto of_step = step.infer(operands, {}).outputs;
static_assert(same(of_step,
                   {f64(shape{}), f32(shape(4, 80, 12)), f32(shape(7, 12)), f32(shape(32, 7)), f64(shape(320))}));
constexpr auto narrow =
    step.infer(types({{ct::dtype::bf16, shape(20, 12)}, {ct::dtype::bf16, shape(7, 12)}, i32(shape(20))}), {}).outputs;
static_assert(narrow[1].type == ct::dtype::bf16 && narrow[2].type == ct::dtype::f32 &&
              narrow[3].type == ct::dtype::bf16);
constexpr auto of_two_widths = step.infer(types({f32(shape(5, 12)), f32(shape(7, 11)), i32(shape(5))}), {});
static_assert(refuses<ct::op::widths_differ>(of_two_widths, 11, 12));
static_assert(refuses<ct::op::cross_entropy::labels_do_not_fit_the_logits>(
    step.infer(types({f32(shape(5, 12)), f32(shape(7, 12)), i32(shape(4))}), {}), 5, 4));
static_assert(refuses<ct::op::linear::not_a_matrix_of_features>(
    evaluation.infer(types({f32(shape{}), f32(shape(7, 12)), i32(shape{})}), {}), 1, 0));
static_assert(step.accumulating == 0b101 && step.workspace == 0b11000 && step.gradient == nullptr);
static_assert(evaluation.accumulating == 1 && evaluation.workspace == 0b1100 && evaluation.gradient == nullptr);

// Ten chunks: the weight is read twice and its gradient written by each, and read by all but the first.
constexpr auto cost = step.cost_of(operands, as_operands(of_step), {});
static_assert(cost.flops == 3 * 2 * 320 * 7 * 12);
static_assert(cost.bytes_read == 4 * (320 * 12 + 320 + (20 + 9) * 7 * 12));
static_assert(cost.bytes_written == 8 + 4 * (320 * 12 + 10 * 7 * 12 + 32 * 7) + 8 * 320);
static_assert(evaluation.cost_of(operands, as_operands(of_evaluation), {}).flops == 2 * 320 * 7 * 12);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5, {.bias = false});
  }
};
struct tied_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "table", shape(6, 6), ct::role::embedding, {.stddev = 0.02});
    return ct::linear(ct::silu(ct::embedding(table, tokens)), table);
  }
};
template <auto model> using lm = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 3, .tokens = 9}>;

template <class task, class... list> constexpr bool is_fused() {
  int count = 0;
  for (auto const& n : ct::trainer<task, ct::precision::fp64, list...>::entries::step_program::final.nodes)
    count += n.op == &ct::info_of<ct::op::linear_cross_entropy_forward_backward> ? 1 : 0;
  return count == 1;
}

// One call and what it wrote, of the fused kernels or of those that they stand for.
template <class real> struct result {
  array<double> loss{shape{}}, correct{shape{}};
  array<real> dx;
  array<ct::storage<ct::accumulator_of(ct::dtype_of<real>)>> dweight;
  result(shape x, shape weight) : dx(x), dweight(weight) {}
};

template <class real> struct problem {
  using sum = ct::storage<ct::accumulator_of(ct::dtype_of<real>)>;
  shape rows, x_shape, weight_shape, logits_shape;
  array<real> x, weight;
  array<std::int32_t> labels;
  array<double> inverse_count;
  ct::attributes twice = ct::pack(ct::op::linear_cross_entropy_forward_backward::options{.loss_gradient = 2});

  problem(shape rows, int width, int classes)
      : rows(rows), x_shape(with(rows, width)), weight_shape(classes, width), logits_shape(with(rows, classes)),
        x(random(x_shape, 1, 1)), weight(random(weight_shape, 2, 0.5)),
        labels(array<std::int32_t>::integers(rows, 3, classes)),
        inverse_count(shape{}, {1.0 / static_cast<double>(rows.elements())}) {
    for (std::size_t i = 2; i < labels.values().size(); i += 7) labels[i] = ct::ignored_label;
  }
  static shape with(shape s, std::int64_t features) {
    s.extent[s.rank++] = features;
    return s;
  }
  static array<real> random(shape s, unsigned seed, double stddev) {
    auto const wide = array<float>::random(s, seed, stddev);
    return array<real>(s, wide.values());
  }
  ct::call call_of(ct::attributes const& options, unsigned adds) const {
    ct::call c{options, no_parameters};
    c.adds = adds;
    return c;
  }

  void separate(result<real>& r, bool adds) const {
    auto const n = rows.elements();
    array<real> logits(logits_shape), dlogits(logits_shape);
    array<sum> log_sum_exp{shape(n)};
    array<double> row_loss{shape(n)}, dloss(shape{}, {2.0});
    call_kernel<ct::op::linear>(plain, x.in(), weight.in(), logits.out());
    call_kernel<ct::op::cross_entropy>(call_of(no_attributes, adds ? 1 : 0), logits.in(), labels.in(),
                                       inverse_count.in(), r.loss.out(), log_sum_exp.out(), row_loss.out());
    call_kernel<ct::op::cross_entropy_gradient>(call_of(no_attributes, 0), dloss.in(), logits.in(), labels.in(),
                                                log_sum_exp.in(), inverse_count.in(), dlogits.out());
    call_kernel<ct::op::linear_input_gradient>(plain, dlogits.in(), weight.in(), r.dx.out());
    call_kernel<ct::op::linear_weight_gradient>(adding(adds ? 1 : 0), dlogits.in(), x.in(), r.dweight.out());
    call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), r.correct.out());
  }
  void fused(result<real>& r, bool adds) const {
    auto const n = rows.elements();
    array<real> logits(shape(ct::op::logit_rows(n), weight_shape.extent[0]));
    array<double> row_loss{shape(n)};
    call_kernel<ct::op::linear_cross_entropy_forward_backward>(
        call_of(twice, adds ? 0b101 : 0), x.in(), weight.in(), labels.in(), inverse_count.in(), r.loss.out(),
        r.dx.out(), r.dweight.out(), logits.out(), row_loss.out());
  }
  void evaluated(result<real>& r, bool adds) const {
    auto const n = rows.elements();
    array<real> logits(shape(ct::op::logit_rows(n), weight_shape.extent[0]));
    array<double> row_loss{shape(n)};
    call_kernel<ct::op::linear_cross_entropy>(call_of(no_attributes, adds ? 1 : 0), x.in(), weight.in(), labels.in(),
                                              inverse_count.in(), r.loss.out(), r.correct.out(), logits.out(),
                                              row_loss.out());
  }
  result<real> fresh() const { return {x_shape, weight_shape}; }
};

template <class T> std::vector<double> wide(array<T> const& a) {
  std::vector<double> values;
  for (auto x : a.values()) values.push_back(static_cast<double>(ct::arithmetic<T>(x)));
  return values;
}

} // namespace

TEST_CASE("linear_cross_entropy: gradients") {
  static_assert(is_fused<lm<model{}>, ct::fusion::all>() &&
                is_fused<lm<tied_model{}>, ct::fusion::all, ct::accumulate<3>>());
  static_assert(!is_fused<lm<model{}>>()); // such small logits are worth no time
  check_gradients<lm<model{}>, ct::fusion::all>();
  check_gradients<lm<tied_model{}>, ct::fusion::all, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("linear_cross_entropy: as the ops that it stands for", real, float, double, float16, bfloat16) {
  // Fewer rows than a chunk, one chunk, chunks and a rest, two dimensions of rows.
  for (auto const& rows : {shape(1), shape(16), shape(37), shape(7, 53), shape(333)})
    for (int classes : {29, 101}) {
      CAPTURE(rows.elements());
      CAPTURE(classes);
      problem<real> const p(rows, classes == 29 ? 13 : 64, classes);
      auto expected = p.fresh(), got = p.fresh(), evaluated = p.fresh();
      for (bool adds : {false, true}) {
        CAPTURE(adds);
        p.separate(expected, adds);
        p.fused(got, adds);
        p.evaluated(evaluated, adds);
        CHECK(relative_error(wide(got.loss), wide(expected.loss)) <= tolerance<real>);
        CHECK(relative_error(wide(got.dx), wide(expected.dx)) <= tolerance<real>);
        CHECK(relative_error(wide(got.dweight), wide(expected.dweight)) <= tolerance<real>);
        CHECK(relative_error(wide(evaluated.loss), wide(expected.loss)) <= tolerance<real>);
        CHECK(evaluated.correct[0] == expected.correct[0]);
      }
    }
}

TEST_CASE("linear_cross_entropy: a micro-batch whose labels are all ignored has no share") {
  problem<float> p(shape(40), 5, 6);
  for (std::size_t i = 0; i < 40; ++i) p.labels[i] = ct::ignored_label;
  auto r = p.fresh();
  p.fused(r, false);
  CHECK(r.loss[0] == 0);
  for (auto g : r.dx.values()) CHECK(g == 0);
  for (auto g : r.dweight.values()) CHECK(g == 0);
  p.evaluated(r, false);
  CHECK(r.loss[0] == 0);
  CHECK(r.correct[0] == 0);
}

TEST_CASE_TEMPLATE("linear_cross_entropy: the same bits on every number of threads", real, float, double) {
  // oneDNN and CBLAS promise nothing of the kind for fp32.
  if (std::is_same_v<real, float> && ct::gemm_provider() != std::string_view("built-in")) return;
  problem<real> const p(shape(3, 167), 48, 70);
  auto const run = [&] {
    auto r = p.fresh();
    p.fused(r, false);
    return r;
  };
  check_same_on_all_threads([&] { return run().loss.values(); });
  check_same_on_all_threads([&] { return run().dx.values(); });
  check_same_on_all_threads([&] { return run().dweight.values(); });
}
