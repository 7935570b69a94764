// Trains a byte-level GPT on text, generates a sample, and compares sets of policies on the same task.

#include "main_job.hpp"

#include <CLI/CLI.hpp>

namespace ct = constrain;

namespace {

using main_job::task;
using main_job::trainer;

struct arguments {
  std::string text = CONSTRAIN_STANDARD_LIBRARY; // file or directory
  std::int64_t tokens = 1'000'000;               // tokens to train on
  std::int64_t row_tokens = 50'000;              // tokens to train on in each row of the comparison
  std::string checkpoint;                        // directory to save the trained model in; empty: not saved
  std::string rows;                              // file for the comparison as JSON; empty: not written
  bool smoke = false;                            // whether to use few tokens
};

/// Returns false if Ctrl-C ended the training or the last evaluation.
bool train(arguments const& a, ct::data::corpus const& corpus) {
  auto const [training, validation] = main_job::split(corpus, a.smoke ? 8'192 : 32'768);
  auto const steps = a.tokens / trainer::batch_tokens;
  trainer t{main_job::hyperparameters, main_job::run(steps)};
  auto const result = ct::fit(
      t, training,
      {.steps = steps, .validation = &validation, .evaluate_every = (steps + 4) / 5, .directory = a.checkpoint});
  if (result.stop_reason == ct::stop_reason::interrupted || !result.validation) return false;
  std::printf("\n%lld steps in %.0f s, %.0f tokens/s, validation loss %.4f\n\n",
              static_cast<long long>(result.steps.count()), result.seconds, result.tokens_per_second,
              result.validation->loss);
  std::printf("--- a sample ---\n%s\n---\n\n",
              t.generate("template <", a.smoke ? 60 : 300, {.temperature = 0.7, .seed = 1}).c_str());
  return true;
}

void compare(arguments const& a, ct::data::corpus const& corpus) {
  using namespace ct;
  auto const rows = ct::compare<task, policies<>, policies<precision::bf16>, policies<checkpoint::every<1>>,
                                policies<checkpoint::every<2>, accumulate<2>>, policies<optimizer::nesterov>,
                                policies<optimizer::sgd, checkpoint::every<3>>>(
      corpus, {.tokens = a.row_tokens, .learning_rate = 2e-3, .clip_norm = 1, .seed = 42});
  std::printf("strategies side by side, %lld tokens each\n%s", static_cast<long long>(a.row_tokens),
              ct::table(rows).c_str());
  if (a.rows.empty()) return;
  auto* const file = std::fopen(a.rows.c_str(), "w");
  bool const is_written = file != nullptr && std::fputs((ct::json(rows) + "\n").c_str(), file) >= 0;
  if (file == nullptr || std::fclose(file) != 0 || !is_written)
    throw ct::error("the rows cannot be written to '" + a.rows + "'; give a path that can be written");
}

} // namespace

int main(int count, char** values) {
  arguments a;
  CLI::App app{"Trains a byte-level GPT on text and compares strategies."};
  app.add_option("--text", a.text, "a file or a directory; the C++ standard library's headers by default");
  app.add_option("--tokens", a.tokens, "number of tokens to train on; 1,000,000 by default")
      ->check(CLI::Range(std::int64_t{trainer::batch_tokens}, std::int64_t{1} << 40));
  app.add_option("--checkpoint", a.checkpoint, "a directory to save the trained model in");
  app.add_option("--json", a.rows, "a file for the table of strategies");
  app.add_flag("--smoke", a.smoke, "a quick test run on few tokens");
  CLI11_PARSE(app, count, values);
  try {
    if (a.smoke) a.tokens = 20'480, a.row_tokens = 2'048;
    auto const corpus = ct::data::text(a.text);
    std::printf("text: %s, %lld bytes\n", a.text.c_str(), static_cast<long long>(corpus.size()));
    if (train(a, corpus)) compare(a, corpus);
  } catch (ct::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
