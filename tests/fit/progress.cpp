#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

// The lines that fit prints.

namespace ct = constrain;
using ct::test::temporary_directory;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

ct::data::corpus corpus() {
  std::string text;
  for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
  return ct::data::corpus::from_bytes(text);
}

std::vector<std::string> lines_of(std::string const& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

} // namespace

TEST_CASE("the batch is a product of numbers, each with its noun; tensor groups count once") {
  using ct::detail::batch_text;
  CHECK(batch_text(1, 1, 1, 1, 1) == "1 process x 1 micro-batch x 1 sequence = 1 sequence a step, of 1 token: 1 token");
  CHECK(batch_text(4, 4, 2, 4, 1024) ==
        "4 processes x 2 micro-batches x 4 sequences = 32 sequences a step, of 1024 tokens: 32,768 tokens");
  CHECK(batch_text(2, 1, 1, 2, 8) ==
        "1 tensor group of 2 processes x 1 micro-batch x 2 sequences = 2 sequences a step, of 8 tokens: 16 tokens");
  CHECK(batch_text(8, 4, 1, 2, 8) ==
        "4 tensor groups of 2 processes x 1 micro-batch x 2 sequences = 8 sequences a step, of 8 tokens: 64 tokens");
}

TEST_CASE("a skipped step names the first gradient that is not finite and counts the others") {
  using ct::detail::skipped_text;
  CHECK(skipped_text({.skipped = true, .not_finite = "a"}) == "skipped: the gradient of a is not finite");
  CHECK(skipped_text({.skipped = true, .not_finite = "a", .more_not_finite = 2}) ==
        "skipped: the gradients of a and 2 more are not finite");
  CHECK(skipped_text({.not_finite = "a", .more_not_finite = 1}) ==
        "skipped for some tensors: the gradients of a and 1 more are not finite");
  CHECK(skipped_text({.skipped = true}) == "skipped: the norm of all gradients together is not finite");
}

TEST_CASE("the lines say how much of the processor's peak a step reaches") {
  temporary_directory const directory;
  auto const text = corpus();
  auto const fitted = [&] {
    trainer t;
    auto const log = std::fopen((directory / "log").c_str(), "w");
    REQUIRE(log != nullptr);
    auto const result = ct::fit(t, text, {.steps = 3, .log = log, .tail = ct::data::tail::drop});
    std::fclose(log);
    return result;
  };
  auto result = fitted();
  // On a busy machine the measurements of the peak do not agree, and none is said.
  for (int again = 0; again < 300 && result.share_of_peak == 0; ++again) result = fitted();
  CHECK(result.share_of_peak > 0);
  CHECK(result.share_of_peak < 1); // most of so small a step is no arithmetic
  int steps = 0;
  bool peak = false, roles = false, batch = false, ended = false;
  for (auto const& line : lines_of(directory / "log")) {
    peak = peak || line.find(" | peak ") != std::string::npos;
    batch = batch || line == "1 process x 1 micro-batch x 2 sequences = 2 sequences a step, of 8 tokens: 16 tokens";
    roles = roles || line.find("embedding 4,224 | norm 96 | weight 3,072 | bias 144") != std::string::npos;
    if (line.starts_with("stopped after step 3: all steps are done | "))
      CHECK(line.find(" | loss ") != std::string::npos);
    CHECK_FALSE(ended);
    ended = line.starts_with("stopped");
    if (!line.starts_with("step ")) continue;
    ++steps;
    auto const share = line.find(" % of peak | ");
    REQUIRE(share != std::string::npos);
    CHECK(line.find(" ms | ") < share);
    CHECK(line.find(" tok/s | eta ") > share);
  }
  CHECK(steps == 3);
  CHECK(peak);
  CHECK(roles);
  CHECK(batch);
  CHECK(ended);
}

TEST_CASE("the lines of fp16 tell the loss scale of the step, those of other precisions none") {
  temporary_directory const directory;
  auto const text = corpus();
  auto const step_lines = [&](auto& t) {
    auto const log = std::fopen((directory / "log").c_str(), "w");
    REQUIRE(log != nullptr);
    ct::fit(t, text, {.steps = 4, .log = log});
    std::fclose(log);
    auto lines = lines_of(directory / "log");
    std::erase_if(lines, [](std::string const& line) { return !line.starts_with("step "); });
    REQUIRE(lines.size() == 4);
    return lines;
  };
  ct::trainer<task, ct::precision::fp16> half({}, {.loss_scale = {.initial = 1024, .interval = 2}});
  auto const lines = step_lines(half);
  for (std::size_t i = 0; i < 4; ++i) {
    auto const scale = lines[i].find(i < 2 ? " | scale 1024 | " : " | scale 2048 | ");
    REQUIRE(scale != std::string::npos);
    CHECK(lines[i].find(" | lr ") < scale);
    CHECK(lines[i].find(" ms | ") > scale);
  }
  trainer single;
  for (auto const& line : step_lines(single)) CHECK(line.find("scale") == std::string::npos);
}
