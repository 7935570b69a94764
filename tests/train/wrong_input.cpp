#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sys/resource.h>

// Wrong input is one sentence and loses nothing.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

struct arrays {
  std::vector<std::int32_t> inputs = std::vector<std::int32_t>(16, 5), labels = std::vector<std::int32_t>(16, 6);
};

} // namespace

TEST_CASE("arrays of the wrong length or range") {
  trainer t;
  arrays a;
  CHECK(sentence([&] { t.batch(std::span(a.inputs).first(15), a.labels); }) ==
        "batch: the array of inputs has 15 elements, but must have 16 ([micro-batches, sequences, tokens]); pass an "
        "array of that length");
  CHECK(sentence([&] { t.batch(a.inputs, std::span(a.labels).first(1)); }).find("the array of labels has 1 element,") !=
        std::string::npos);
  for (int bad : {-1, 256, std::numeric_limits<int>::max(), std::numeric_limits<int>::min(), ct::ignored_label}) {
    arrays wrong;
    wrong.inputs[7] = bad;
    CHECK(sentence([&] { t.batch(wrong.inputs, wrong.labels); }) ==
          "batch: token " + std::to_string(bad) +
              " at index 7 is outside the vocabulary of 256; pass tokens from 0 to 255");
    auto const token =
        ": token " + std::to_string(bad) + " at index 7 is outside the vocabulary of 256; pass tokens from 0 to 255";
    CHECK(sentence([&] { t.predict(wrong.inputs); }) == "predict" + token);
    CHECK(sentence([&] { t.evaluate(wrong.inputs, wrong.labels); }) == "evaluate" + token);
    CHECK(sentence([&] { t.generate(std::span<std::int32_t const>(wrong.inputs), 3); }) == "generate" + token);
    if (bad == ct::ignored_label) continue;
    arrays labels;
    labels.labels[3] = bad;
    CHECK(sentence([&] { t.batch(labels.inputs, labels.labels); }) ==
          "batch: label " + std::to_string(bad) +
              " at index 3 is outside the 256 classes; pass labels from 0 to 255, or "
              "-100 to ignore one");
    CHECK(sentence([&] {
            t.evaluate(labels.inputs, labels.labels);
          }).starts_with("evaluate: label " + std::to_string(bad) + " at index 3 is outside the 256 classes"));
  }
  arrays ignored;
  for (auto& label : ignored.labels) label = ct::ignored_label;
  CHECK(sentence([&] { t.batch(ignored.inputs, ignored.labels); }).find("every label is ignored") != std::string::npos);
  CHECK(sentence([&] { t.predict(std::span(a.inputs).first(15)); }) ==
        "predict: the array of inputs has 15 elements, but must have 16 ([sequences, tokens]); pass an array of that "
        "length");
  auto const one = std::span<std::int32_t const>(a.inputs);
  CHECK(
      sentence([&] { t.evaluate(one.first(15), one.first(15)); }) ==
      "evaluate: the array of inputs has 15 elements, but must have a positive multiple of the micro-batch's 16; pass "
      "complete micro-batches, the last one padded with any token and ignored labels");
  CHECK(sentence([&] { t.evaluate({}, {}); })
            .starts_with("evaluate: the array of inputs has 0 elements, but must have a positive multiple of the "
                         "micro-batch's 16"));
  CHECK(sentence([&] { t.evaluate(one, one.first(8)); }) ==
        "evaluate: the array of labels has 8 elements, but must have 16 for the inputs' 1 micro-batch; pass 16, with "
        "-100 where an input has no label");
  CHECK(sentence([&] { t.generate("", 3); }).find("the prompt is empty") != std::string::npos);
  CHECK(t.steps() == 0);
}

TEST_CASE("text that is missing, empty or too short") {
  ct::test::temporary_directory const directory;
  trainer t;
  CHECK(sentence([&] { ct::data::text(directory / "none.txt"); }).find("none.txt") != std::string::npos);
  ct::test::write_file(directory / "empty.txt", "");
  CHECK(sentence([&] { ct::data::text(directory / "empty.txt"); }).find("is empty") != std::string::npos);
  ct::test::write_file(directory / "short.txt", "8 bytes.");
  auto const text = ct::data::text(directory / "short.txt");
  CHECK(sentence([&] { ct::fit(t, text, {.steps = 3, .log = nullptr}); }) ==
        "fit: the corpus has 8 tokens, but a context of 8 needs at least 9; give more text or use a shorter context");
  CHECK(sentence([&] { t.evaluate(text); }).starts_with("evaluate: the corpus has 8 tokens, but a context of 8 needs"));
}

TEST_CASE("a corpus that the model does not know") {
  using narrow = ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 97, .context = 8},
                                      ct::causal_lm, ct::micro_batch{.sequences = 1}>>;
  narrow t;
  CHECK(sentence([&] { ct::fit(t, ct::data::text_from(std::string(100, 'x')), {.log = nullptr}); }) ==
        "fit: the corpus has a vocabulary of 256 tokens, but the model's vocabulary has 97; give the model "
        "`.vocabulary = 256`");
  CHECK(sentence([] { ct::detail::check_vocabulary("fit", 19661101, 97); }) ==
        "fit: the corpus has a vocabulary of 19661101 tokens, but the model's vocabulary has 97; give the model "
        "`.vocabulary = 19661101`, or check .bits of data::tokens"); // a file of 16-bit tokens, read with .bits = 32
  CHECK_NOTHROW(ct::detail::check_vocabulary("fit", 256, 0));        // no op limits the tokens of the model
}

TEST_CASE("a checkpoint of another configuration names the field") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "checkpoint";
  trainer{}.save(path);
  auto const refused = [&](auto&& other) { return sentence([&] { other.load(path); }); };
  CHECK(refused(ct::trainer<task, ct::precision::fp64>{}).find("its precision is fp32, the trainer's is fp64") !=
        std::string::npos);
  CHECK(refused(ct::trainer<task, ct::optimizer::sgd>{}).find("its optimizer is adamw, the trainer's is sgd") !=
        std::string::npos);
  using longer = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 9},
                          ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  CHECK(refused(ct::trainer<longer>{}).find("number of tokens in a sequence is 8, the trainer's is 9") !=
        std::string::npos);
  using wider = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 18, .vocabulary = 256, .context = 8}, ct::causal_lm,
                         ct::micro_batch{.sequences = 2}>;
  CHECK(refused(ct::trainer<wider>{})
            .find("its shape of 'transformer.wte.weight' is [256, 16], the trainer's is [256, 18]") !=
        std::string::npos);
  using deeper = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 256, .context = 8},
                          ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  CHECK(refused(ct::trainer<deeper>{}).find("has no tensor 'transformer.h.2.ln_1.weight' of the trainer") !=
        std::string::npos);
  CHECK(sentence([&] { trainer{}.load(directory / "nothing"); }).find("nothing") != std::string::npos);
}

TEST_CASE("a full disk leaves the old checkpoint") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "checkpoint";
  trainer t({}, {.seed = 4});
  t.save(path);
  arrays a;
  t.step(t.batch(a.inputs, a.labels));
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  auto const full = rlimit{4096, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  auto const said = sentence([&] { t.save(path); });
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK(!said.empty());
  CHECK(directory.entries() == 1);
  trainer u;
  u.load(path);
  CHECK(u.steps() == 0);
  CHECK(u.state().seed == 4);
}

TEST_CASE("a gradient that is not finite skips the update and names the tensor") {
  trainer t;
  arrays a;
  auto const parameters = t.parameters();
  std::vector<std::vector<float>> before;
  for (auto const& p : parameters) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    // One weight of the last norm: the gradients behind it and its own are hit.
    if (p.name == "norm.bias")
      p.copy_to(std::span<float>(values)), values[3] = std::numeric_limits<float>::infinity(),
                                           p.copy_from(std::span<float const>(values));
    p.copy_to(std::span<float>(values));
    before.push_back(values);
  }
  auto const r = t.step(t.batch(a.inputs, a.labels));
  CHECK(r.skipped);
  CHECK(r.not_finite == "token.weight");
  // The infinite weight makes the gradients of all parameters infinite or NaN.
  CHECK(r.more_not_finite + 1 == static_cast<int>(parameters.size()));
  CHECK(!std::isfinite(r.gradient_norm));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<float> after(before[i].size());
    parameters[i].copy_to(std::span<float>(after));
    CHECK(after == before[i]);
  }
  CHECK(t.steps() == 1);
  CHECK(t.state().skipped == 1);
  // Checked mode names the operation.
  trainer checked({}, {.checked = true});
  for (auto const& p : checked.parameters()) {
    if (p.name != "norm.bias") continue;
    std::vector<float> values(static_cast<std::size_t>(p.size()), std::numeric_limits<float>::infinity());
    p.copy_from(std::span<float const>(values));
  }
  CHECK(sentence([&] {
          checked.step(checked.batch(a.inputs, a.labels));
        }).find("(layer_norm) writes a non-finite value") != std::string::npos);
}

TEST_CASE("gradients are kept until another entry runs") {
  trainer t;
  arrays a;
  CHECK(sentence([&] { t.gradient("norm.bias"); }).find("read it right after a step") != std::string::npos);
  t.step(t.batch(a.inputs, a.labels));
  CHECK(t.gradient("norm.bias").size() == 16);
  CHECK(sentence([&] {
          t.gradient("norm.scale");
        }).find("there is no parameter 'norm.scale'; the parameters are token.weight, ") != std::string::npos);
  t.predict(a.inputs);
  CHECK(sentence([&] { t.gradient("norm.bias"); }).find("read it right after a step") != std::string::npos);
}
