// Optimizers and weights in bf16, GEMMs in TF32, updates in the backward pass, and inference, in two processes. Started
// by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;

namespace own {

/// Adds a random number to each element.
struct add_noise {
  static constexpr char const* name = "add_noise";
  static constexpr char const* layouts = "* -> *";
  static constexpr bool draws_random = true;
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

/// The optimizer `O`, with noise in the gradients.
template <class O> struct noisy {
  using base = O;
  static constexpr char const* name = "noisy";
  struct hyper {
    typename O::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) {
    u.assign(u.gradient(), ct::emit<add_noise>({u.gradient()}));
    ct::op::update_by<O>(u);
  }
};

} // namespace own

template <> struct constrain::kernel<own::add_noise, constrain::cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    random_stream const stream{c.parameters.seed, c.parameters.step, c.random_key, c.iteration};
    for_elements(y.count, [=](std::int64_t i) {
      y[i] = x[i] + static_cast<real>(0.01 * (uniform(stream.draw(0, i).word[0]) - 0.5));
    });
  }
};

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

template <class trainer> ct::step_result step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i * 5 + static_cast<std::size_t>(number * 2 + t.rank() % t.data_ranks());
    inputs[i] = static_cast<std::int32_t>(k % 61), labels[i] = static_cast<std::int32_t>((k + 5) % 61);
  }
  return t.step(t.batch(inputs, labels));
}

/// The weights after four steps.
template <class... policies> std::vector<float> weights_after_four_steps() {
  ct::trainer<task, policies...> t;
  for (int i = 0; i < 4; ++i) step(t, i);
  std::vector<float> all;
  for (auto const& p : t.parameters()) {
    std::vector<float> x(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(x));
    all.insert(all.end(), x.begin(), x.end());
  }
  return all;
}

/// Every stage of ZeRO gives the weights of ddp.
template <class... policies> void compare(char const* name) {
  auto const expected = weights_after_four_steps<ct::parallel::ddp, policies...>();
  check(weights_after_four_steps<ct::parallel::zero<1, 2>, policies...>() == expected, std::string(name) + ": zero<1>");
  check(weights_after_four_steps<ct::parallel::zero<2, 2>, policies...>() == expected, std::string(name) + ": zero<2>");
  check(weights_after_four_steps<ct::parallel::zero<3, 2>, policies...>() == expected, std::string(name) + ": zero<3>");
}

/// Updates in the backward pass give the weights of updates after it.
template <class optimizer, class... policies> void compare_in_backward(char const* name) {
  check(weights_after_four_steps<ct::optimizer::in_backward<optimizer>, policies...>() ==
            weights_after_four_steps<optimizer, policies...>(),
        std::string("in_backward: ") + name);
}

/// An inference object gives the numbers of the trainer that saved its weights.
template <class parallelism> void compare_inference(char const* name) {
  ct::trainer<task, ct::precision::bf16, parallelism> t;
  step(t, 0);
  std::string const directory = std::string("constrain-updates-") + name;
  t.save(directory);
  ct::inference<task, ct::precision::bf16, parallelism> model;
  model.load_pretrained(directory);
  std::vector<std::int32_t> inputs(2 * 16), labels(2 * 16);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = static_cast<std::int32_t>(i * 7 % 61), labels[i] = static_cast<std::int32_t>((i * 7 + 5) % 61);
  check(model.evaluate(inputs, labels).loss == t.evaluate(inputs, labels).loss, std::string("inference: ") + name);
  check(model.predict(inputs).logits == t.predict(inputs).logits, std::string("inference, logits: ") + name);
}

} // namespace

int main() {
  using ct::optimizer::adamw;
  compare<ct::optimizer::states_in<ct::dtype::bf16, adamw>>("states_in");
  compare<own::noisy<adamw>>("random numbers in an update rule");
  compare_in_backward<adamw, ct::parallel::ddp>("adamw");
  compare_in_backward<ct::optimizer::adamw_8bit, ct::parallel::ddp, ct::checkpoint::every<2>>("adamw_8bit");
  compare_in_backward<adamw, ct::parallel::tensor<2>>("tensor parallel");
  compare_inference<ct::parallel::ddp>("ddp");
  compare_inference<ct::parallel::zero<3, 2>>("zero_3");
  compare_inference<ct::parallel::tensor<2>>("tensor");
  compare<adamw, ct::precision::tf32>("tf32");
  compare_in_backward<adamw, ct::precision::tf32, ct::parallel::tensor<2>>("tf32, tensor parallel");
  using pure = ct::precision::pure_bf16;
  compare<adamw, pure>("pure_bf16");
  compare<ct::optimizer::adafactor, pure, ct::checkpoint::every<2>>("pure_bf16 with adafactor");
  compare<ct::optimizer::states_in<ct::dtype::bf16, adamw>, pure>("pure_bf16 with states_in");
  compare_in_backward<adamw, pure, ct::parallel::ddp>("pure_bf16");
  compare_in_backward<adamw, pure, ct::parallel::tensor<2>>("pure_bf16, tensor parallel");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
