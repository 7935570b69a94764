// A vocabulary whose rows do not divide over the ranks of a tensor group: neither a policy's pass that changes the
// gradient of unused rows nor an optimizer that makes them NaN changes a step. Started by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ct = constrain;

namespace {

int failures = 0;

void check(bool holds, char const* name, char const* what, double seen) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s: %s (%g)\n", name, what, seen);
}

struct shift_op {
  static constexpr char const* name = "shift";
  static constexpr char const* layouts = "* -> *";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

/// A policy whose pass adds 0.05 to all elements of all gradients.
struct no_shift;
struct shift_slot {
  bool shifts = false;
  friend constexpr bool operator==(shift_slot const&, shift_slot const&) = default;
  template <class...> using otherwise = no_shift;
  using rules = ct::rule_list<>;
};
struct no_shift {
  using slot = shift_slot;
  static constexpr slot value{};
};
struct shift {
  using slot = shift_slot;
  static constexpr slot value{.shifts = true};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    ct::for_each_gradient(out, [&](ct::value g) { out.call<shift_op>({g.where()}, {g.where()}); });
    return out.program;
  }
};

/// Changes every weight by the learning rate: NaN where the gradient is 0, as in unused rows.
struct unit_steps {
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 0.01f;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.learning_rate) * gradient / std::abs(gradient);
  }
};

/// Two ranks have four rows each of both tables and of the bias: one is unused.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4, .stddev = 0.5});
    x = x + ct::linear("down", ct::gelu(ct::linear("up", x, 8)), 4);
    return ct::linear("head", x, 7, {.role = ct::role::head});
  }
};

/// The gradient of the table [2, vocabulary] of `two_bias_head`.
struct table_gradient {
  static constexpr char const* name = "table_gradient";
  static constexpr char const* layouts = "-o -> -o";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(ct::accumulator_of(in[0].type), ct::shape(2, in[0].shape.features()));
  }
};
/// A head with two biases: their table is divided along dimension 1.
struct two_bias_head {
  static constexpr char const* name = "two_bias_head";
  static constexpr char const* layouts = "...i, oi, ko -> ...o";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape.with_features(in[1].shape.extent[0]));
  }
  static constexpr void gradient(ct::backward& b) {
    if (b.needs(0)) b.emit<ct::op::linear_input_gradient>({b.gradient(), b.input(1)}, {0});
    if (b.needs(1)) b.emit<ct::op::linear_weight_gradient>({b.gradient(), b.input(0)}, {1});
    if (b.needs(2)) b.emit<table_gradient>({b.gradient()}, {2});
  }
};
struct model_with_two_biases {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4, .stddev = 0.5});
    auto const weight = ct::parameter(x, "head", ct::shape(7, 4), ct::role::head, {.stddev = 0.5});
    auto const table = ct::parameter(x, "table", ct::shape(2, 7), ct::role::weight, {.stddev = 0.5});
    return ct::emit<two_bias_head>({x, weight, table});
  }
};
/// Each layer reads the head, so its bias, one tensor of a stack, is divided as the head is: a rank has 4096 elements,
/// and a shard of zero<3, 2> half of them.
struct model_with_a_stack {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 8191, .width = 4, .stddev = 0.5});
    auto const head = ct::parameter(x, "head", ct::shape(8191, 4), ct::role::head, {.stddev = 0.5});
    x = ct::repeat("block", 2, x, [&](ct::value x) {
      auto const bias = ct::parameter(x, "bias", ct::shape(8191), ct::role::bias, {.stddev = 0.5});
      return x + ct::linear("down", ct::gelu(ct::emit<ct::op::linear>({x, head, bias})), 4);
    });
    return ct::linear(x, head);
  }
};
template <class model, int sequences>
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = sequences, .tokens = 8}>;

/// The batch of all ranks, or the part of it that this rank trains on.
template <class trainer> ct::step_result step(trainer& t) {
  auto const size = static_cast<std::size_t>(trainer::batch_tokens);
  auto const first = size * static_cast<std::size_t>(t.rank() * t.data_ranks() / t.ranks());
  std::vector<std::int32_t> inputs(size), labels(size);
  for (std::size_t i = 0; i < size; ++i) {
    auto const k = (first + i) * 3 + (first + i) / 8;
    inputs[i] = static_cast<std::int32_t>(k % 7), labels[i] = static_cast<std::int32_t>((k * k + 3) % 7);
  }
  return t.step(t.batch(inputs, labels));
}

/// Four steps of all ranks against four of one process on all their batches.
template <class model, class strategy, int groups, class... policies> void compare(char const* name) {
  ct::trainer<task<model, 2>, strategy, ct::precision::fp64, policies...> together{{}, {.seed = 3}};
  ct::trainer<task<model, 2 * groups>, ct::precision::fp64, policies...> alone{{}, {.seed = 3}};
  for (int i = 0; i < 4; ++i) {
    auto const ours = step(together), theirs = step(alone);
    check(!ours.skipped && !theirs.skipped, name, "a step is skipped", i);
    check(std::abs(ours.loss - theirs.loss) < 1e-12, name, "the losses differ", ours.loss - theirs.loss);
    double const norm = ours.gradient_norm - theirs.gradient_norm;
    check(std::abs(norm) < 1e-12, name, "the norms differ", norm);
  }
  std::vector<std::int32_t> const samples{1, 2, 6, 4, 5, 0, 3, 2, 6, 6, 1, 3, 4, 2, 0, 5,
                                          1, 1, 3, 6, 2, 0, 4, 5, 6, 1, 2, 0, 3, 5, 4, 4};
  double const loss = together.evaluate(samples, samples, ct::labels::shift).loss -
                      alone.evaluate(samples, samples, ct::labels::shift).loss;
  check(std::abs(loss) < 1e-12, name, "the losses of an evaluation differ", loss);
  auto const weights = together.parameters(), expected = alone.parameters();
  for (std::size_t p = 0; p < weights.size(); ++p) {
    std::vector<double> a(static_cast<std::size_t>(weights[p].size())), b(a);
    weights[p].copy_to(std::span(a)), expected[p].copy_to(std::span(b));
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    check(worst < 1e-12, name, "weights differ", worst);
  }
}

template <class strategy, int groups> void compare_all() {
  compare<model, strategy, groups, shift, ct::optimizer::sgd>("shift");
  compare<model, strategy, groups, unit_steps>("unit steps");
  compare<model, strategy, groups, ct::optimizer::averaged<unit_steps>>("average of unit steps");
  compare<model_with_two_biases, strategy, groups, shift, ct::optimizer::sgd>("shift of columns");
  compare<model_with_two_biases, strategy, groups, unit_steps>("unit steps of columns");
}

} // namespace

template <> struct constrain::kernel<shift_op, constrain::cpu> {
  template <class real> static void run(call const&, tensor<real const> x, tensor<real> y) {
    for (std::int64_t i = 0; i < y.count; ++i) y[i] = x[i] + real(0.05);
  }
};

template <> struct constrain::kernel<two_bias_head, constrain::cpu> {
  template <class real>
  static void run(call const&, tensor<real const> x, tensor<real const> weight, tensor<real const> table,
                  tensor<real> y) {
    auto const width = x.features(), classes = y.features();
    for (std::int64_t row = 0; row < x.rows(); ++row)
      for (std::int64_t o = 0; o < classes; ++o) {
        real sum = table[o] + 2 * table[classes + o];
        for (std::int64_t i = 0; i < width; ++i) sum += x[row * width + i] * weight[o * width + i];
        y[row * classes + o] = sum;
      }
  }
};
template <> struct constrain::kernel<table_gradient, constrain::cpu> {
  template <class real> static void run(call const&, tensor<real const> dy, tensor<real> dtable) {
    auto const classes = dy.features();
    for (std::int64_t o = 0; o < classes; ++o) {
      real sum = 0;
      for (std::int64_t row = 0; row < dy.rows(); ++row) sum += dy[row * classes + o];
      dtable[o] = sum, dtable[classes + o] = 2 * sum;
    }
  }
};

int main() {
#if CONSTRAIN_RANKS == 2
  compare_all<ct::parallel::tensor<2>, 1>();
  compare<model, ct::parallel::tensor<2>, 1, ct::optimizer::in_backward<unit_steps>>("unit steps in the backward pass");
#else
  compare_all<ct::parallel::mesh<ct::parallel::ddp, ct::parallel::tensor<2>>, 2>();
  compare_all<ct::parallel::mesh<ct::parallel::zero<1, 2>, ct::parallel::tensor<2>>, 2>();
  using sharded = ct::parallel::mesh<ct::parallel::zero<3, 2>, ct::parallel::tensor<2>>;
  compare_all<sharded, 2>();
  compare<model_with_a_stack, sharded, 2, shift, ct::optimizer::sgd>("shift in a stack");
#endif
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
