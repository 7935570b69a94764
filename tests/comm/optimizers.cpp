// Optimizers that work on full tensors, and settings, in two processes: with all tensors on each rank, and with ZeRO of
// stage CONSTRAIN_STAGE over two ranks. Started by mpirun; the exit code tells.

#include "op/own_rule.hpp"
#include "op/own_setting.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// Its state is largest where there is no gradient, as in the padding of a shard, which must stay out of the blocks.
struct rarity {
  template <class real> struct state { real rare; };
  static constexpr bool state_signed[] = {false};
  struct hyper {
    float learning_rate = 0.1f;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.rare = real(0.5) * s.rare + 1 / (1 + real(1e5) * gradient * gradient);
    return weight - real(h.learning_rate) * (1 + s.rare) * gradient;
  }
};

template <class trainer> void step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i * 5 + static_cast<std::size_t>(number * 2 + t.rank());
    inputs[i] = static_cast<std::int32_t>(k % 61), labels[i] = static_cast<std::int32_t>((k + 5) % 61);
  }
  t.step(t.batch(inputs, labels));
}

/// Weights and states after four steps, the last two of them in a trainer that resumed.
template <class first, class second> std::string bytes_of(std::string const& directory) {
  {
    first t;
    step(t, 0), step(t, 1);
    t.save(directory + "/half");
  }
  second t;
  t.load(directory + "/half");
  step(t, 2), step(t, 3);
  t.save(directory + "/end");
  return read_file(directory + "/end/model.safetensors") + read_file(directory + "/end/optimizer.safetensors");
}

template <class optimizer> void compare(char const* name) {
  using whole = ct::trainer<task, optimizer, ct::parallel::ddp>;
  using shards = ct::trainer<task, optimizer, ct::parallel::zero<CONSTRAIN_STAGE, 2>>;
  auto const& bytes = [&]<class first, class second>() {
    std::string const directory = "constrain-optimizers-" + std::to_string(CONSTRAIN_STAGE) + "-" + name;
    return bytes_of<first, second>(directory);
  };
  auto const expected = bytes.template operator()<whole, whole>();
  check(!expected.empty(), std::string(name) + " saved nothing");
  check(bytes.template operator()<shards, shards>() == expected,
        std::string(name) + ": shards and full tensors differ");
  check(bytes.template operator()<whole, shards>() == expected,
        std::string(name) + ": shards do not resume full tensors");
  check(bytes.template operator()<shards, whole>() == expected,
        std::string(name) + ": full tensors do not resume shards");
}

/// Reads the parameter behind the node that changes it: a sum of all weights so far.
struct summed {
  struct hyper {
    float learning_rate = 0;
  };
  static constexpr void update(ct::update_rule& u) {
    auto const sum = u.state("sum");
    u.assign(u.parameter(), u.parameter() + u.gradient());
    u.assign(sum, sum + u.parameter());
  }
};

/// Stores a new gradient before the update of another optimizer.
struct doubled {
  using base = ct::optimizer::sgd;
  struct hyper {
    ct::optimizer::sgd::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) {
    u.assign(u.gradient(), u.gradient() + u.gradient());
    ct::op::update_by<base>(u);
  }
};

/// The sum of the mean magnitudes of the gradient so far, for each block of 256 elements of the parameter.
struct block_means_op {
  static constexpr char const* name = "block_means";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape).and_also(in[2].type, in[2].shape);
  }
};
struct block_means {
  struct hyper {
    float learning_rate = 0.1f;
  };
  static constexpr void update(ct::update_rule& u) {
    constexpr int block = 256;
    ct::shape const blocks((u.shape().elements() + block - 1) / block);
    auto const means = u.state("means", blocks, u.type(), 0, block);
    auto const next = ct::emit_all<block_means_op>({u.gradient(), u.parameter(), means});
    u.assign(u.parameter(), next[0]);
    u.assign(means, next[1]);
  }
};

/// Updates the parameter and a state in place, and needs the full gradient for both.
struct largest_step_op {
  static constexpr char const* name = "largest_step";
  static constexpr bool guarded = true;
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape).and_also(in[0].type, in[0].shape);
  }
};
struct largest_step {
  using base = ct::optimizer::sgd; // so that the rule gets the full parameter
  struct hyper {
    ct::optimizer::sgd::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) {
    auto const magnitudes = u.state("magnitudes");
    u.update_in_place<largest_step_op>({u.gradient(), u.scale()}, {u.parameter(), magnitudes});
  }
};

struct model_with_a_setting {
  constexpr ct::value operator()(ct::value tokens) const {
    return scaled(ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 61, .width = 8}), 61), "factor", 1);
  }
};

} // namespace

template <> struct constrain::kernel<block_means_op, constrain::cpu> {
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<real const> weight, tensor<real const> means,
                  tensor<real> new_weight, tensor<real> new_means) {
    for (std::int64_t b = 0; b < means.count; ++b) {
      auto const begin = b * 256, end = std::min(weight.count, begin + 256);
      real sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += std::abs(gradient[i]);
      new_means[b] = means[b] + sum / static_cast<real>(end - begin);
      for (std::int64_t i = begin; i < end; ++i)
        new_weight[i] = weight[i] - real(0.1) * gradient[i] / (1 + new_means[b]);
    }
  }
};
template <> struct constrain::kernel<largest_step_op, constrain::cpu> {
  template <class real>
  static void run(call const&, tensor<real const> gradient, tensor<double const> norm_and_scale, tensor<real> weight,
                  tensor<real> magnitudes) {
    if (norm_and_scale[1] == 0) return;
    real largest = 0;
    for (std::int64_t i = 0; i < gradient.count; ++i) largest = std::max(largest, std::abs(gradient[i]));
    for (std::int64_t i = 0; i < gradient.count; ++i) {
      magnitudes[i] += std::abs(gradient[i]);
      weight[i] -= real(0.01) * gradient[i] / (largest + magnitudes[i]);
    }
  }
};

namespace {

/// A rule that doubles the gradient equals one with twice the learning rate.
void doubled_gradient() {
  using shards = ct::parallel::zero<CONSTRAIN_STAGE, 2>;
  ct::trainer<task, doubled, shards> mine{{.base = {.learning_rate = 0.1f}}};
  ct::trainer<task, ct::optimizer::sgd, shards> other{{.learning_rate = 0.2f}};
  step(mine, 0), step(other, 0);
  auto const weights = mine.parameters(), expected = other.parameters();
  for (std::size_t p = 0; p < weights.size(); ++p) {
    std::vector<float> a(static_cast<std::size_t>(weights[p].size())), b(a);
    weights[p].copy_to(std::span(a)), expected[p].copy_to(std::span(b));
    check(a == b, "a rule's gradient is not the one that it has stored: " + std::string(weights[p].name));
  }
}

/// All ranks must give a setting the same value, one of the library too.
void settings() {
  ct::trainer<ct::task<model_with_a_setting{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>,
              ct::parallel::ddp>
      t;
  t.set("factor", 3);
  check(t.setting("factor") == 3, "all ranks set the same value");
  auto const said = sentence([&] { t.set("factor", t.rank()); });
  check(said ==
            "the ranks do not agree: the setting factor is 0 on rank 0 and 1 on rank 1; set the same setting to the "
            "same value on all ranks",
        said);
  check(t.setting("factor") == 3, "a refused value is not set");
  check(sentence([&] { t.set("clip_norm", t.rank() + 1); }) ==
            "the ranks do not agree: the setting clip_norm is 1 on rank 0 and 2 on rank 1; set the same "
            "setting to the same value on all ranks",
        "the library's settings are agreed upon too");
  check(t.setting("clip_norm") == 0, "a refused norm is not set");
  step(t, 0);
}

} // namespace

int main() {
  settings();
  doubled_gradient();
  compare<normalized_momentum>("own_rule");
  compare<summed>("summed");
  compare<doubled>("doubled");
  compare<block_means>("block_means");
  compare<largest_step>("largest_step");
  compare<ct::optimizer::lion>("lion");
  compare<ct::optimizer::adafactor>("adafactor");
  compare<ct::optimizer::adafactor_relative_step>("adafactor_relative_step");
  compare<ct::optimizer::adafactor_with_momentum>("adafactor_with_momentum");
  compare<ct::optimizer::adamw_8bit>("adamw_8bit");
  compare<ct::optimizer::quantized<rarity>>("rarity");
  compare<ct::optimizer::averaged<ct::optimizer::adamw>>("averaged");
  compare<ct::optimizer::by_role<ct::optimizer::adamw>>("by_role");
  compare<ct::optimizer::muon<ct::optimizer::adamw>>("muon");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
