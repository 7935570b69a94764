#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::cross_entropy_and_gradient>;
constexpr auto logits_type = f32(shape(2, 5, 12));
constexpr ct::operand_type labels_type{ct::dtype::i32, shape(2, 5)}, scalar{ct::dtype::f64, shape()};
constexpr auto outputs = rule.infer(types({logits_type, labels_type, scalar, scalar}), {}).outputs;
static_assert(outputs.size() == 3 && outputs[0] == logits_type && outputs[1] == scalar);
static_assert(outputs[2] == ct::operand_type{ct::dtype::f64, shape(10)});
static_assert(rule.in_place == 0b1 && rule.accumulating == 0b10 && rule.workspace == 0b100);
static_assert(rule.gradient == nullptr && rule.strided_inputs == 0b1 && rule.strided_outputs == 0b1);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
constexpr ct::micro_batch batch{.sequences = 2, .tokens = 4};
using plain_task = ct::task<model{}, ct::causal_lm, batch>;
using regularized_task =
    ct::task<model{}, ct::causal_lm_with<ct::cross_entropy_options{.label_smoothing = 0.1, .z_loss = 0.01}>, batch>;

// A step computes loss and gradient together, an evaluation only the loss.
template <class op, class trainer, class program> constexpr int calls(program const& p) {
  int count = 0;
  for (auto const& n : p.nodes) count += n.op == &ct::info_of<op> ? 1 : 0;
  return count;
}
template <class task, class... policies> constexpr bool is_fused() {
  using entries = typename ct::trainer<task, policies...>::entries;
  using fused = ct::op::cross_entropy_and_gradient;
  return calls<fused, void>(entries::step_program::final) == 1 &&
         calls<fused, void>(entries::evaluate_program::final) == 0;
}
static_assert(is_fused<plain_task>() && is_fused<regularized_task>() && is_fused<plain_task, ct::accumulate<2>>());
static_assert(!is_fused<plain_task, ct::fusion::none>());

/// A matrix with gaps between its rows; the gaps hold NaN.
template <class real> class gapped {
public:
  gapped(array<real> const& x, shape const& s) : shape_(s) {
    auto const width = s.features();
    values_.assign(static_cast<std::size_t>(s.rows() * (width + gap)), std::numeric_limits<real>::quiet_NaN());
    for (std::int64_t i = 0; i < s.elements(); ++i)
      values_[static_cast<std::size_t>(i / width * (width + gap) + i % width)] = x[static_cast<std::size_t>(i)];
  }
  ct::tensor<real const> in() const { return {values_.data(), &shape_, shape_.elements(), shape_.features() + gap}; }
  ct::tensor<real> out() { return {values_.data(), &shape_, shape_.elements(), shape_.features() + gap}; }
  /// The elements of the rows. The gaps must be as they were.
  std::vector<real> values() const {
    std::vector<real> elements;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      auto const width = static_cast<std::size_t>(shape_.features());
      if (i % (width + gap) < width) elements.push_back(values_[i]);
      else CHECK(values_[i] != values_[i]);
    }
    return elements;
  }

private:
  static constexpr std::int64_t gap = 3;
  shape shape_;
  std::vector<real> values_;
};

} // namespace

TEST_CASE("cross_entropy_and_gradient: gradients") {
  check_gradients<plain_task, ct::fusion::all>();
  check_gradients<regularized_task, ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("cross_entropy_and_gradient: the bits of the ops that it stands for", real, float, double) {
  shape const s(9, 37), rows(9);
  auto const logits = array<real>::random(s, 1, 3);
  auto labels = array<std::int32_t>::integers(rows, 2, 37);
  labels[4] = ct::ignored_label;
  array<double> const inverse_count(shape{}, {0.125}), dloss(shape{}, {3.0});
  for (auto const& options : {ct::cross_entropy_options{}, {.label_smoothing = 0.1}, {.z_loss = 0.01}})
    for (unsigned const adds : {0u, 1u}) {
      auto const packed = ct::pack(options);
      auto const with_options = [&](unsigned a) {
        static ct::step_parameters const none;
        ct::call c{packed, none};
        c.adds = a;
        return c;
      };
      array<double> loss(shape{}, {0.5}), expected_loss(shape{}, {0.5}), row_loss(rows);
      array<real> log_sum(rows), expected(s), got(s);
      call_kernel<ct::op::regularized_cross_entropy>(with_options(adds), logits.in(), labels.in(), inverse_count.in(),
                                                     expected_loss.out(), log_sum.out(), row_loss.out());
      call_kernel<ct::op::regularized_cross_entropy_gradient>(with_options(0), dloss.in(), logits.in(), labels.in(),
                                                              log_sum.in(), inverse_count.in(), expected.out());
      call_kernel<ct::op::cross_entropy_and_gradient>(with_options(adds << 1), logits.in(), labels.in(),
                                                      inverse_count.in(), dloss.in(), got.out(), loss.out(),
                                                      row_loss.out());
      CHECK(same_bits(got.values(), expected.values()));
      CHECK(same_bits(loss.values(), expected_loss.values()));
      // In place, in rows with gaps.
      gapped<real> over(logits, s);
      array<double> again(shape{}, {0.5});
      call_kernel<ct::op::cross_entropy_and_gradient>(with_options(adds << 1), over.in(), labels.in(),
                                                      inverse_count.in(), dloss.in(), over.out(), again.out(),
                                                      row_loss.out());
      CHECK(same_bits(over.values(), expected.values()));
      CHECK(same_bits(again.values(), expected_loss.values()));
      // The ops that it stands for take such rows, too.
      gapped<real> const from(logits, s);
      gapped<real> to(logits, s);
      call_kernel<ct::op::regularized_cross_entropy>(with_options(0), from.in(), labels.in(), inverse_count.in(),
                                                     again.out(), log_sum.out(), row_loss.out());
      call_kernel<ct::op::regularized_cross_entropy_gradient>(with_options(0), dloss.in(), from.in(), labels.in(),
                                                              log_sum.in(), inverse_count.in(), to.out());
      CHECK(same_bits(to.values(), expected.values()));
    }
}

TEST_CASE("linear layers and accuracy take rows with gaps") {
  shape const x_shape(5, 6), y_shape(5, 9), weight_shape(9, 6), width(9), rows(5);
  auto const x = array<double>::random(x_shape, 1), weight = array<double>::random(weight_shape, 2);
  auto const bias = array<double>::random(width, 3), dy = array<double>::random(y_shape, 4);
  array<double> y(y_shape), dx(x_shape), dx_of_gapped(x_shape), dweight(weight_shape), dweight_of_gapped(weight_shape);
  array<double> dbias(width), dbias_of_gapped(width);
  gapped<double> to(dy, y_shape);
  gapped<double> const from(dy, y_shape);
  ct::step_parameters const none;
  ct::attributes const no_options;
  ct::call const c{no_options, none};
  call_kernel<ct::op::linear>(c, x.in(), weight.in(), bias.in(), y.out());
  call_kernel<ct::op::linear>(c, x.in(), weight.in(), bias.in(), to.out());
  CHECK(same_bits(to.values(), y.values()));
  call_kernel<ct::op::linear_input_gradient>(c, dy.in(), weight.in(), dx.out());
  call_kernel<ct::op::linear_input_gradient>(c, from.in(), weight.in(), dx_of_gapped.out());
  CHECK(same_bits(dx_of_gapped.values(), dx.values()));
  call_kernel<ct::op::linear_weight_gradient>(c, dy.in(), x.in(), dweight.out());
  call_kernel<ct::op::linear_weight_gradient>(c, from.in(), x.in(), dweight_of_gapped.out());
  CHECK(same_bits(dweight_of_gapped.values(), dweight.values()));
  call_kernel<ct::op::linear_bias_gradient>(c, dy.in(), dbias.out());
  call_kernel<ct::op::linear_bias_gradient>(c, from.in(), dbias_of_gapped.out());
  CHECK(same_bits(dbias_of_gapped.values(), dbias.values()));
  array<std::int32_t> const labels(rows, {1, 8, 3, ct::ignored_label, 0});
  array<double> correct(shape{}), correct_of_gapped(shape{});
  call_kernel<ct::op::correct_predictions>(c, dy.in(), labels.in(), correct.out());
  call_kernel<ct::op::correct_predictions>(c, from.in(), labels.in(), correct_of_gapped.out());
  CHECK(correct[0] == correct_of_gapped[0]);
}
