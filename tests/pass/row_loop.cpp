#include "check_gradients.hpp"
#include "simulate.hpp"

#include <constrain/pass/row_loop.hpp>
#include <doctest/doctest.h>

#include <cmath>

using namespace constrain;
using namespace constrain::test;

namespace {

// The chunks: sixteens of rows, an eighth of all, or a bit less where no rows remain then; else a tenth.
static_assert(logit_rows(1) == 1 && logit_rows(15) == 15 && logit_rows(16) == 16);
static_assert(logit_rows(159) == 16 && logit_rows(319) == 16 && logit_rows(320) == 32);
static_assert(logit_rows(2048) == 256 && logit_rows(1024) == 128 && logit_rows(512) == 64);
static_assert([] {
  for (std::int64_t rows = 160; rows < 5000; ++rows)
    if (8 * logit_rows(rows) > rows || 80 * logit_rows(rows) < 4 * rows) return false;
  return true;
}());

struct head_only {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5, {.bias = false});
  }
};
struct with_bias {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
// Tied weights, and as many features as classes.
struct square {
  constexpr value operator()(value tokens) const {
    auto const table = parameter(tokens, "table", shape(6, 6), role::embedding, {.stddev = 0.3});
    return linear(silu(embedding(table, tokens)), table);
  }
};
template <auto model, int sequences = 4, class objective = causal_lm>
using lm = task<model, objective, micro_batch{.sequences = sequences, .tokens = 9}>;
template <class task> constexpr program gradients = updated(built<task>());
template <class task> constexpr program looped = loop_over_rows(gradients<task>, 0);

// 36 rows: two chunks of 16, and 4 rows in a second copy of the body, in a loop of one iteration, which does not run if
// 32 rows or fewer have a valid label. The gradient of the loss is made before the loop.
constexpr auto p = looped<lm<head_only{}>>;
static_assert(verify(p).ok() && loops(p) == loops(gradients<lm<head_only{}>>) + 2);
static_assert(calls(p, &info_of<op::linear>) == 2 && calls(p, &info_of<op::cross_entropy>) == 2);
static_assert(calls(p, &info_of<op::linear_weight_gradient>) == 2 && calls(p, &info_of<op::constant_like>) == 1);
static_assert(same(loop_over_rows(p, 0), p));
// Rows with a valid label come first, and each of the two loops says which of them its iterations work on.
static_assert(calls(p, &info_of<op::valid_first>) == 1 && calls(p, &info_of<op::gather_rows>) == 4);
static_assert(calls(p, &info_of<op::scatter_rows>) == 2);
constexpr auto rows_of_axis = [](int axis) { return p.axes[p.axes.size() - 2 + axis].rows; };
static_assert(rows_of_axis(0).begin == 0 && rows_of_axis(0).per_iteration == 16);
static_assert(rows_of_axis(1).begin == 32 && rows_of_axis(1).per_iteration == 4);
// Behind the loop, nothing reads what an iteration that was skipped would have written.
constexpr auto with_late_reader = [] {
  builder out;
  out.program = p;
  for (auto const& n : p.nodes)
    if (calls(n, info_of<op::gather_rows>) && p.values[n.outputs[0].value].type != dtype::i32) {
      out.call<op::copy>({n.outputs[0]});
      break;
    }
  return out.program;
}();
static_assert(verify(with_late_reader).reason == why::skipped_iteration_is_read);
// A label that the host cannot ignore, because an op looks it up, leaves all rows where they are.
struct indexes_by_labels {
  constexpr value operator()(value logits, value labels) const {
    labels.owner().program.limit(labels.where(), 5); // as ct::embedding of the labels
    return cross_entropy(logits, labels);
  }
};
constexpr auto all_rows = looped<lm<head_only{}, 4, indexes_by_labels>>;
static_assert(calls(all_rows, &info_of<op::cross_entropy>) == 2 && calls(all_rows, &info_of<op::gather_rows>) == 0);
static_assert(calls(all_rows, &info_of<op::stack>) == 1);
// So do labels that are not the first, which the trainer does not count.
struct second_labels {
  static constexpr port_spec labels[] = {{.name = "weights", .each = per::row}, {.name = "labels", .each = per::row}};
  constexpr value operator()(value logits, value, value labels) const { return cross_entropy(logits, labels); }
};
static_assert(calls(looped<lm<head_only{}, 4, second_labels>>, &info_of<op::cross_entropy>) == 2);
static_assert(calls(looped<lm<head_only{}, 4, second_labels>>, &info_of<op::valid_first>) == 0);
// So does a loss with a second sum, to which ignored rows may add.
struct own_loss_gradient {
  static constexpr char const* name = "own_loss_gradient";
  static constexpr char const* layouts = "-, ..., ..., - -> ...";
  static constexpr unsigned label_inputs = 0b100;
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};
template <int sums> struct own_loss {
  static constexpr char const* name = "own_loss";
  static constexpr char const* layouts = sums == 1 ? "..., ..., - -> -" : "..., ..., - -> -, -";
  static constexpr unsigned accumulating = (1u << sums) - 1, label_inputs = 0b10;
  static constexpr inferred infer(operand_types const&) {
    auto const sum = inferred::one(dtype::f64, {});
    return sums == 1 ? sum : sum.and_also(dtype::f64, {});
  }
  static constexpr void gradient(backward& b) {
    b.emit<own_loss_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2)}, {0});
  }
};
template <int sums> struct of_sums {
  constexpr value operator()(value logits, value labels) const {
    return emit<own_loss<sums>>({logits, labels, inverse_label_count(labels)});
  }
};
static_assert(calls(looped<lm<head_only{}, 4, of_sums<1>>>, &info_of<op::valid_first>) == 1);
static_assert(calls(looped<lm<head_only{}, 4, of_sums<2>>>, &info_of<own_loss<2>>) == 2);
static_assert(calls(looped<lm<head_only{}, 4, of_sums<2>>>, &info_of<op::valid_first>) == 0);
// 16 rows or fewer are one chunk; of 27, 16 without a loop and a remainder; of 144, nine chunks without a remainder.
static_assert(same(looped<task<head_only{}, causal_lm, micro_batch{.sequences = 2, .tokens = 8}>>,
                   gradients<task<head_only{}, causal_lm, micro_batch{.sequences = 2, .tokens = 8}>>));
static_assert(loops(looped<lm<head_only{}, 3>>) == 1 && calls(looped<lm<head_only{}, 3>>, &info_of<op::linear>) == 2);
static_assert(loops(looped<lm<head_only{}, 16>>) == 1 && calls(looped<lm<head_only{}, 16>>, &info_of<op::linear>) == 1);
// Logits below the limit are stored for all rows.
static_assert(same(loop_over_rows(gradients<lm<head_only{}>>, 36 * 5 * 4 + 1), gradients<lm<head_only{}>>));
static_assert(same(loop_over_rows(gradients<lm<head_only{}>>, 36 * 5 * 4), p));
// A bias, a tied weight, micro-batches, a cast and checkpoints change nothing in that.
static_assert(verify(looped<lm<with_bias{}>>).ok() &&
              calls(looped<lm<with_bias{}>>, &info_of<op::linear_bias_gradient>) == 2);
static_assert(verify(looped<lm<square{}>>).ok() && calls(looped<lm<square{}>>, &info_of<op::linear>) == 2);
using gpt2_of_18_rows = task<small_gpt2, causal_lm, micro_batch{.sequences = 3}>;
constexpr bool is_looped(program const& before) {
  auto const after = loop_over_rows(before, 0);
  return verify(after).ok() && calls(after, &info_of<op::cross_entropy>) == 2;
}
static_assert(is_looped(updated(built<gpt2_of_18_rows>(), 3)));
static_assert(is_looped(recompute(updated(built<gpt2_of_18_rows>(), 3), 2)));
static_assert(is_looped(updated(built<gpt2_of_18_rows>(), 2, dtype::bf16)));

// In evaluation the correct predictions are counted chunk by chunk; a program whose logits the host reads keeps them.
template <entry e>
constexpr program entry_of = dead_code_elimination(remove_training_ops(gpt2_of_18_rows::build(e, dtype::f32)));
static_assert(is_looped(entry_of<entry::evaluate>));
static_assert(calls(loop_over_rows(entry_of<entry::evaluate>, 0), &info_of<op::correct_predictions>) == 2);
static_assert(same(loop_over_rows(entry_of<entry::predict>, 0), entry_of<entry::predict>));

// Logits that another op reads stay: its rows might depend on each other. So does a loss from which the gradient of the
// loss is computed.
struct halved {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x / 2; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return dy / 2; }
};
struct squared {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x * x; }
  template <class real> CT_HOST_DEVICE static real gradient(real x, real, real dy) { return 2 * x * dy; }
};
struct two_readers {
  constexpr value operator()(value logits, value labels) const {
    return cross_entropy(logits, labels) + cross_entropy(elementwise<halved>(logits), labels);
  }
};
struct squared_loss {
  constexpr value operator()(value logits, value labels) const {
    return elementwise<squared>(cross_entropy(logits, labels));
  }
};
template <class objective> constexpr program with = gradients<lm<head_only{}, 4, objective>>;
static_assert(same(loop_over_rows(with<two_readers>, 0), with<two_readers>));
static_assert(same(loop_over_rows(with<squared_loss>, 0), with<squared_loss>));

// So do logits to which an op adds random numbers, which depend on positions in the full logits.
struct add_noise {
  static constexpr char const* name = "add_noise";
  static constexpr char const* layouts = "... -> ...";
  static constexpr bool draws_random = true;
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.add(0, b.gradient()); }
};
struct noisy {
  constexpr value operator()(value logits, value labels) const {
    return cross_entropy(emit<add_noise>({logits}), labels);
  }
};
static_assert(same(loop_over_rows(with<noisy>, 0), with<noisy>));

// Sharded, the gradient of the head is reduced once, behind the loop, and the weight gathered once, before it.
using gpt2_of_48_rows = task<small_gpt2, causal_lm, micro_batch{.sequences = 8}>;
constexpr auto plain = recompute(updated(built<gpt2_of_48_rows>(), 3), 2);
constexpr auto sharded = partition(plain, true, 3), sharded_loop = partition(loop_over_rows(plain, 0), true, 3);
static_assert(verify(sharded_loop).ok());
static_assert(verify(partition(p, true, 2)).ok());
// An exchange in a loop of which each rank runs another number of iterations is found.
constexpr auto exchanging = [] {
  auto out = without_nodes(p).program;
  for (auto const& n : p.nodes) {
    out.add_node(n);
    if (!calls(n, info_of<op::cross_entropy>)) continue;
    node exchange;
    exchange.op = &info_of<op::all_reduce_small>;
    out.add_node(exchange);
  }
  return out;
}();
static_assert(verify(exchanging).reason == why::exchange_may_be_skipped);
static_assert(calls(sharded_loop, &info_of<op::reduce_scatter>) == calls(sharded, &info_of<op::reduce_scatter>));
static_assert(calls(sharded_loop, &info_of<op::all_gather>) == calls(sharded, &info_of<op::all_gather>) - 1);
static_assert(runs(sharded_loop, &info_of<op::all_gather>) == runs(sharded, &info_of<op::all_gather>) - 3);

template <class task, class... list> using doubles = trainer<task, precision::fp64, optimizer::sgd, list...>;
struct of_50_classes {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 7, .width = 6}), 50, {.bias = false});
  }
};
template <class... list> constexpr std::int64_t activation_bytes() {
  return doubles<lm<of_50_classes{}, 40>, list...>::memory.activations.count();
}
// Of 360 rows of 50 logits in fp64, 32 are stored; the gradient overwrites them.
static_assert(activation_bytes<fusion::none>() - activation_bytes<fusion::all>() > 300 * 50 * 8);

} // namespace

TEST_CASE("the loop over rows: gradients") {
  check_gradients<lm<head_only{}>, fusion::all>();
  check_gradients<lm<with_bias{}, 3>, fusion::all>();
  check_gradients<lm<square{}>, fusion::all, accumulate<3>>();
  check_gradients<gpt2_of_18_rows, fusion::all, accumulate<2>, checkpoint::every<2>>();
}

TEST_CASE("the loop over rows is planned like any other") {
  for (auto const& before :
       {gradients<lm<head_only{}>>, gradients<lm<square{}, 16>>, plain, sharded_loop, entry_of<entry::evaluate>}) {
    auto const f = in_place(slice_views(coalesce(loop_over_rows(before, 0))));
    CHECK(verify(f) == diagnosis{});
    CHECK(calls(f, &info_of<op::slice>) + calls(f, &info_of<op::concatenate>) + calls(f, &info_of<op::stack>) == 0);
    CHECK(calls(f, &info_of<op::reshape>) == 0);
    CHECK(simulate(f, plan_memory(f)).errors == std::vector<std::string>{});
  }
}

TEST_CASE_TEMPLATE("the loop over rows computes what all rows together compute", task, lm<head_only{}, 3>,
                   lm<head_only{}>, lm<square{}, 16>, lm<with_bias{}, 40>) {
  auto const run = []<class trainer>(trainer t) {
    auto const w = random_batch::draw<trainer>(5);
    double loss = 0;
    for (int step = 0; step < 5; ++step) loss = t.step(t.batch(w.inputs, w.labels)).loss;
    auto const evaluated = t.evaluate(w.inputs, w.labels);
    std::vector<double> weights;
    for (auto const& parameter : t.parameters()) {
      std::vector<double> values(static_cast<std::size_t>(parameter.size()));
      parameter.copy_to(std::span(values));
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return std::tuple(loss, evaluated.loss, evaluated.accuracy, weights);
  };
  auto const [loss, evaluated, accuracy, weights] = run(doubles<task, fusion::all>{{.learning_rate = 0.1f}});
  auto const [all_loss, all_evaluated, all_accuracy, all_weights] =
      run(doubles<task, fusion::none>{{.learning_rate = 0.1f}});
  CHECK(std::abs(loss - all_loss) < 1e-13);
  CHECK(std::abs(evaluated - all_evaluated) < 1e-13);
  CHECK(accuracy == all_accuracy);
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) largest = std::max(largest, std::abs(weights[i] - all_weights[i]));
  CHECK(largest < 1e-13);
}

TEST_CASE("a micro-batch whose labels are all ignored has no share") {
  std::vector<std::int32_t> inputs(72, 3), labels(72, ignored_label);
  for (std::size_t i = 36; i < 72; ++i)
    inputs[i] = static_cast<std::int32_t>(i % 7), labels[i] = static_cast<std::int32_t>(i % 5);
  doubles<lm<head_only{}>, fusion::all, accumulate<2>> both;
  doubles<lm<head_only{}>, fusion::all> second;
  auto const of_both = both.step(both.batch(inputs, labels));
  auto const of_second = second.step(second.batch(std::span(inputs).subspan(36), std::span(labels).subspan(36)));
  CHECK(of_both.loss == of_second.loss);
  CHECK(of_both.gradient_norm == of_second.gradient_norm);
}
