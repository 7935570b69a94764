#pragma once

#include <constrain/constrain.hpp>

#include <string>
#include <vector>

/// The result of a training run in one translation unit.
struct trained {
  std::vector<double> losses;
  std::string instruction_set;
  int threads = 0;
  std::string variant;            // what of the flags changes the library's code
  void const* function = nullptr; // address of one of the library's functions
};

namespace {

/// Five steps, from a saved run where `resume` is one; saved where `save` is a path.
inline trained train(char const* resume = nullptr, char const* save = nullptr) {
  namespace ct = constrain;
  using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 24, .vocabulary = 67, .context = 19}, ct::causal_lm,
                        ct::micro_batch{.sequences = 2}>;
  using trainer = ct::trainer<task>;
  trainer t{{.learning_rate = 3e-3f}, {.dropout = 0.1}};
  std::vector<std::int32_t> inputs(trainer::batch_tokens), labels(trainer::batch_tokens);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>(i * 31 % 67);
    labels[i] = static_cast<std::int32_t>(i * 17 % 67);
  }
  trained result{{},
                 ct::instruction_set,
                 ct::thread_count(),
                 CONSTRAIN_TEXT(CONSTRAIN_VARIANT),
                 reinterpret_cast<void const*>(&ct::data::text_from)};
  if (resume != nullptr) t.load(resume);
  for (int i = 0; i < 5; ++i) result.losses.push_back(t.step(t.batch(inputs, labels)).loss);
  if (save != nullptr) t.save(save);
  return result;
}

} // namespace
