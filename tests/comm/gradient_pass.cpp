// Policies whose passes work on every gradient between the backward pass and the update, in two processes: with all
// tensors on each rank, and with each tensor in two shards. Started by mpirun; the exit code tells.

#include "policy/tensor_clipping.hpp"

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace own {

/// gradient += 1e-3, of which each rank adds its contribution.
struct add_constant {
  struct options {
    ct::shape shape;
    ct::dtype type;
  };
  static constexpr char const* name = "add_constant";
  static constexpr unsigned accumulating = 0b1;
  static constexpr ct::inferred infer(ct::operand_types const&, options const& o) {
    return ct::inferred::one(o.type, o.shape);
  }
};

/// gradient + 1e-2, element by element: in a shard the padding too, which is then not zero.
struct shift {
  static constexpr char const* name = "shift";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

/// twice = 2 * gradient, a full tensor.
struct twice {
  static constexpr char const* name = "twice";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

struct keeps;
struct change_slot {
  enum change { none, adds, shifts, clips_twice } what = none;
  friend constexpr bool operator==(change_slot const&, change_slot const&) = default;
  template <class...> using otherwise = keeps;
  using rules = ct::rule_list<>;
};
struct keeps {
  using slot = change_slot;
  static constexpr slot value{};
};
struct shifts_gradients {
  using slot = change_slot;
  static constexpr slot value{.what = slot::shifts};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    ct::for_each_gradient(out, [&](ct::value gradient) { out.call<shift>({gradient.where()}, {gradient.where()}); });
    return out.program;
  }
};
/// Clips each tensor's gradient by the norm of a tensor that an op computes in full.
struct clips_by_a_computed_norm {
  using slot = change_slot;
  static constexpr slot value{.what = slot::clips_twice};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    auto const limit = ct::setting(ct::value{out, p.result("loss")}, "tensor_norm", 0.01).where();
    ct::for_each_gradient(out, [&](ct::value gradient) {
      auto const squares = ct::emit<ct::op::gradient_norm_squared>({ct::emit<twice>({gradient})});
      out.call<scale_tensor>({gradient.where(), squares.where(), limit}, {gradient.where()});
    });
    return out.program;
  }
};
struct adds_a_constant {
  using slot = change_slot;
  static constexpr slot value{.what = slot::adds};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    ct::for_each_gradient(out, [&](ct::value gradient) {
      out.call<add_constant>({}, {gradient.where()}, {gradient.shape(), gradient.type()});
    });
    return out.program;
  }
};

} // namespace own

template <> struct constrain::kernel<own::add_constant, constrain::cpu> {
  template <class real> static void run(call const& c, tensor<real> gradient) {
    double const ranks = c.parameters.data == nullptr ? 1 : c.parameters.data->size();
    for (std::int64_t i = 0; i < gradient.count; ++i)
      gradient[i] = (c.add_to(0) ? gradient[i] : real(0)) + static_cast<real>(1e-3 / ranks);
  }
};
template <> struct constrain::kernel<own::shift, constrain::cpu> {
  template <class real> static void run(call const&, tensor<real const> gradient, tensor<real> shifted) {
    for (std::int64_t i = 0; i < gradient.count; ++i) shifted[i] = gradient[i] + static_cast<real>(1e-2);
  }
};
template <> struct constrain::kernel<own::twice, constrain::cpu> {
  template <class real> static void run(call const&, tensor<real const> gradient, tensor<real> result) {
    for (std::int64_t i = 0; i < gradient.count; ++i) result[i] = gradient[i] * static_cast<real>(2);
  }
};

namespace {

int failures = 0;
int rank = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

constexpr int per_rank = 4;
constexpr double limit = 0.02; // of the norm of a tensor's gradient
template <int sequences>
using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = sequences}>;

struct outcome {
  std::vector<double> norms; // of all gradients, step by step
  std::vector<std::vector<double>> weights;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// Five steps on batches of which each rank takes its part. `norm`: the setting; 0: there is none.
template <class trainer> outcome train(double norm, bool checked = false) {
  trainer t{{.learning_rate = 0.5f}, {.seed = 3, .checked = checked}};
  rank = t.rank();
  if (norm > 0) t.set("tensor_norm", norm);
  outcome o;
  for (int number = 0; number < 5; ++number) {
    std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto const token = i + inputs.size() * static_cast<std::size_t>(t.rank());
      inputs[i] = static_cast<std::int32_t>((token * token + 3 * static_cast<std::size_t>(number)) % 61);
      labels[i] = static_cast<std::int32_t>((token * token + 3 * static_cast<std::size_t>(number) + 1) % 61);
    }
    o.norms.push_back(t.step(t.batch(inputs, labels)).gradient_norm);
  }
  for (auto const& p : t.parameters()) {
    o.weights.emplace_back(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(o.weights.back()));
  }
  return o;
}

/// The largest difference of two weights relative to the largest weight of their tensor; infinite if one is NaN.
double difference(outcome const& a, outcome const& b) {
  double worst = 0;
  for (std::size_t t = 0; t < a.weights.size(); ++t) {
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < a.weights[t].size(); ++i) {
      double const now = std::abs(a.weights[t][i] - b.weights[t][i]);
      if (!std::isfinite(now)) return std::numeric_limits<double>::infinity();
      apart = std::max(apart, now);
      size = std::max(size, std::abs(a.weights[t][i]));
    }
    if (apart > 0) worst = std::max(worst, apart / size);
  }
  return worst;
}

/// One process on the batches of both ranks gives their weights. `same_bits`: whether full tensors and shards add in
/// the same order, which they do not with several micro-batches or with contributions in several loops.
template <class... policies> void compare(double within, bool same_bits, double norm = limit) {
  using sgd = ct::optimizer::sgd;
  using one_process = ct::trainer<task<2 * per_rank>, sgd, policies...>;
  using full = ct::trainer<task<per_rank>, sgd, ct::parallel::ddp, policies...>;
  using shards = ct::trainer<task<per_rank>, sgd, ct::parallel::zero<3, 2>, policies...>;
  std::string const name = shards::policy_set::name();
  auto const replicated = train<full>(norm), sharded = train<shards>(norm), one = train<one_process>(norm);
  check(!same_bits || replicated == sharded, name + " is not ddp bit for bit");
  check(train<shards>(norm, true) == sharded, name + ": checked mode changes numbers");
  check(train<full>(norm, true) == replicated, name + ": checked mode changes numbers of ddp");
  double const apart = std::max(difference(one, replicated), difference(one, sharded));
  if (rank == 0) std::printf("%s: weights %.1e from one process\n", name.c_str(), apart);
  check(apart <= within, name + ": weights are not one process's");
}

/// A limit that no gradient reaches, and one that all exceed: the policy does something.
void check_effect() {
  using full = ct::trainer<task<per_rank>, ct::precision::fp64, ct::optimizer::sgd, ct::parallel::ddp>;
  using clipped =
      ct::trainer<task<per_rank>, ct::precision::fp64, ct::optimizer::sgd, ct::parallel::ddp, tensor_clipping<false>>;
  check(train<clipped>(1e9) == train<full>(0), "a limit that no gradient reaches changes numbers");
  auto const tight = train<clipped>(1e-3);
  check(tight.norms[0] < 1e-3 * 7 && tight.norms[0] > 1e-3 * 6, "40 tensors of norm 1e-3 have norm 1e-3 sqrt(40)");
}

} // namespace

int main() {
  using fp64 = ct::precision::fp64;
  using whole = tensor_clipping<false>;
  using by_elements = tensor_clipping<true>;
  using two = ct::accumulate<2>;
  using every = ct::checkpoint::every<2>;
  check_effect();
  compare<fp64, whole>(1e-13, true);
  compare<whole, every>(5e-6, true);
  compare<ct::precision::fp16, by_elements>(2e-3, true);
  compare<fp64, whole, two, every>(1e-13, false);
  compare<fp64, by_elements, two, every>(1e-13, false);
  // Contributions before the gradient is read, and after it has been overwritten.
  compare<fp64, own::adds_a_constant, whole>(1e-13, false);
  compare<fp64, whole, own::adds_a_constant>(1e-13, true);
  compare<fp64, by_elements, own::adds_a_constant, two, every>(1e-13, false);
  // Values that an op leaves in the padding of a shard, and the norm of a tensor that is not stored in shards.
  compare<fp64, own::shifts_gradients>(1e-13, true, 0);
  compare<fp64, own::clips_by_a_computed_norm>(1e-13, true);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
