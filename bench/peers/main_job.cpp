// Trains the main job (examples/main_job.hpp) and writes files with which another program can run the same training:
// the initial weights, every batch in order, the validation data and the hyperparameters. Prints the validation loss as
// JSON.

#include "../../examples/main_job.hpp"

#include <constrain/io/json_writer.hpp>
#include <constrain/io/safetensors_writer.hpp>

namespace ct = constrain;
using main_job::task;

namespace {

ct::io::tensor integers(std::string name, std::vector<std::int64_t> shape, std::vector<std::int32_t> const& values) {
  return {std::move(name), "I32", std::move(shape), std::as_bytes(std::span(values))};
}

void write_model(std::string const& path, std::int64_t steps) {
  ct::io::json_writer json;
  json.object();
  json.member("layers", main_job::model.layers)
      .member("heads", main_job::model.heads)
      .member("width", main_job::model.width);
  json.member("vocabulary", main_job::model.vocabulary)
      .member("context", main_job::model.context)
      .member("steps", steps);
  json.member("learning_rate", main_job::hyperparameters.learning_rate)
      .member("weight_decay", main_job::hyperparameters.weight_decay);
  json.member("beta1", main_job::hyperparameters.beta1).member("beta2", main_job::hyperparameters.beta2);
  json.member("epsilon", main_job::hyperparameters.epsilon).member("schedule", "cosine").member("warmup", steps / 20);
  json.member("minimum_rate_fraction", 0.1).member("clip_norm", 1.0).end();
  ct::io::atomic_file file(path);
  file.out().write(std::as_bytes(std::span(json.text())));
  file.commit();
}

template <class trainer> void write_weights(std::string const& path, trainer const& t) {
  std::vector<ct::io::tensor> tensors;
  std::vector<std::vector<float>> values;
  for (auto const& p : t.parameters()) {
    auto& copy = values.emplace_back(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(copy));
    ct::io::tensor out{std::string(p.name), "F32", {}, std::as_bytes(std::span(copy))};
    if (p.stacked()) out.shape.push_back(p.iterations());
    for (int i = 0; i < p.shape().rank; ++i) out.shape.push_back(p.shape().extent[i]);
    tensors.push_back(out);
  }
  ct::io::write_safetensors(path, tensors);
}

template <class trainer> void run(std::string const& text, std::string const& directory, std::int64_t tokens) {
  auto const [training, validation] = main_job::split(ct::data::text(text), 32'768);
  auto const steps = tokens / trainer::batch_tokens;
  trainer t{main_job::hyperparameters, main_job::run(steps)};
  write_model(directory + "/model.json", steps);
  write_weights(directory + "/initial.safetensors", t);

  std::vector<std::int32_t> inputs, labels;
  for (auto const& w : t.batches(training)) {
    if (t.steps() == steps) break;
    inputs.insert(inputs.end(), w.inputs.begin(), w.inputs.end());
    labels.insert(labels.end(), w.labels.begin(), w.labels.end());
    auto const r = t.step(w);
    if (t.steps().count() % 20 == 0)
      std::fprintf(stderr, "step %lld loss %.4f\n", static_cast<long long>(t.steps().count()), r.loss);
  }
  std::vector<std::int64_t> const shape{steps, trainer::micro_batches, task::sequences, task::tokens};
  ct::io::write_safetensors(directory + "/windows.safetensors",
                            std::vector{integers("inputs", shape, inputs), integers("labels", shape, labels)});

  // Full micro-batches only, so that both programs evaluate the same tokens.
  auto const batches = ct::data::samples(validation.size(), task::tokens) / task::sequences;
  auto const size = static_cast<std::size_t>(batches * task::sequences * task::tokens);
  std::vector<std::int32_t> validation_inputs(size), validation_labels(size);
  for (std::int64_t sample = 0; sample < batches * task::sequences; ++sample)
    ct::copy_sample(validation, sample, task::tokens, validation_inputs.data() + sample * task::tokens,
                    validation_labels.data() + sample * task::tokens);
  std::vector<std::int64_t> const validation_shape{batches, task::sequences, task::tokens};
  ct::io::write_safetensors(directory + "/validation.safetensors",
                            std::vector{integers("inputs", validation_shape, validation_inputs),
                                        integers("labels", validation_shape, validation_labels)});
  auto const e = t.evaluate(validation_inputs, validation_labels);
  std::printf("{\"validation_loss\": %.6f, \"steps\": %lld, \"tokens\": %lld}\n", e.loss, static_cast<long long>(steps),
              static_cast<long long>(steps * trainer::batch_tokens));
}

} // namespace

int main(int count, char** arguments) {
  using wide = main_job::trainer;
  using mixed = ct::trainer<task, ct::precision::bf16, ct::optimizer::adamw, ct::accumulate<2>>;
  if (count != 4 && !(count == 5 && std::string_view(arguments[4]) == "bf16")) {
    std::fprintf(stderr, "usage: main_job TEXT DIRECTORY TOKENS [bf16]\n");
    return 2;
  }
  if (count == 5) run<mixed>(arguments[1], arguments[2], std::atoll(arguments[3]));
  else run<wide>(arguments[1], arguments[2], std::atoll(arguments[3]));
}
