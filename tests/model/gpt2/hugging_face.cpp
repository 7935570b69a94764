#include "../../fixtures.hpp"
#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/safetensors_writer.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

// A GPT-2 goes from Transformers to a trainer and back (tests/fixtures/make_hugging_face.py made hugging_face/).

namespace ct = constrain;
using ct::test::fixture, ct::test::sentence, ct::test::temporary_directory;

namespace {

constexpr ct::gpt2 model{.layers = 2, .heads = 2, .width = 8, .vocabulary = 11, .context = 6};
template <ct::gpt2 m> using task_of = ct::task<m, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
using task = task_of<model>;

std::string const theirs = std::string(CONSTRAIN_FIXTURES) + "/hugging_face";

template <class trainer> double largest_difference(trainer& t) {
  fixture const results("hugging_face/results.safetensors");
  auto const got = t.predict(results.integers("inputs"));
  auto const expected = results.reals("logits");
  REQUIRE(got.logits.size() == expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    auto const difference = std::abs(static_cast<double>(got.logits[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/// The error of load_pretrained for a copy of the directory with a different config.json.
std::string refusal(std::string const& from, std::string const& to) {
  temporary_directory const directory;
  std::filesystem::copy(theirs, directory.path, std::filesystem::copy_options::recursive);
  auto text = ct::test::read_file(directory / "config.json");
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  ct::test::write_file(directory / "config.json", text.replace(at, from.size(), to));
  ct::trainer<task> t;
  auto said = sentence([&] { t.load_pretrained(directory.path.string()); });
  auto const its = said.find("its ");
  return its == said.npos ? said : said.substr(its);
}

} // namespace

TEST_CASE("packed documents of a GPT-2 of Transformers have the logits and gradients of each alone") {
  constexpr auto packed = [] {
    auto m = model;
    m.packed = true;
    return m;
  }();
  ct::trainer<ct::task<packed, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 12}>, ct::precision::fp64> t;
  ct::trainer<task, ct::precision::fp64> alone;
  t.load_pretrained(theirs);
  alone.load_pretrained(theirs);
  fixture const results("hugging_face/results.safetensors");
  auto const tokens = results.integers("inputs");
  std::vector<std::int32_t> const positions{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
  auto const expected = alone.predict(tokens).logits;
  CHECK(ct::test::relative_error(t.predict({tokens, positions}).logits, {expected.begin(), expected.end()}) < 1e-14);
  std::vector<std::int32_t> const labels{3, 1, ct::ignored_label, 4, 10, 5, 9, 2, 6, 5, 3, 5};
  t.step(t.batch({tokens, positions}, labels));
  alone.step(alone.batch(tokens, labels));
  for (auto const& p : t.parameters()) {
    CAPTURE(std::string(p.name));
    std::vector<double> got(static_cast<std::size_t>(p.size())), of_alone(got.size());
    t.gradient(p.name).copy_to(std::span(got));
    alone.gradient(p.name).copy_to(std::span(of_alone));
    CHECK(ct::test::relative_error(got, of_alone) < 1e-13);
  }
}

TEST_CASE("a GPT-2 of Transformers gives its logits here") {
  ct::trainer<task> t;
  CHECK(largest_difference(t) > 0.1);
  t.load_pretrained(theirs);
  CHECK(largest_difference(t) < 1e-5);
  ct::trainer<task, ct::precision::fp64> wide;
  wide.load_pretrained(theirs + "/model.safetensors");
  CHECK(largest_difference(wide) < 1e-5);
  CHECK(t.steps() == 0);
}

TEST_CASE("16-bit weights, and names without their prefix") {
  ct::trainer<task> t;
  t.load_pretrained(theirs + "/bf16.safetensors");
  CHECK(largest_difference(t) < 0.1);
  t.load_pretrained(theirs + "/f16.safetensors");
  CHECK(largest_difference(t) < 1e-2);
}

TEST_CASE("a checkpoint is what Transformers would have saved") {
  temporary_directory const directory;
  ct::trainer<task> t;
  t.load_pretrained(theirs);
  t.save(directory / "checkpoint");
  auto const ours = ct::io::safetensors_file::open(directory / "checkpoint/model.safetensors");
  auto const expected = ct::io::safetensors_file::open(theirs + "/model.safetensors");
  CHECK(ours.tensors().size() == expected.tensors().size());
  for (auto const& t : expected.tensors()) {
    CAPTURE(t.name);
    auto const* const same = ours.find(t.name);
    REQUIRE(same != nullptr);
    CHECK(same->dtype == t.dtype);
    CHECK(same->shape == t.shape);
    CHECK(std::equal(same->bytes.begin(), same->bytes.end(), t.bytes.begin(), t.bytes.end()));
  }
  CHECK(ours.metadata() == expected.metadata());
  auto const config = ct::io::json::parse(ct::test::read_file(directory / "checkpoint/config.json"), "ours");
  auto const wanted = ct::io::json::parse(ct::test::read_file(theirs + "/config.json"), "theirs");
  for (auto const* name : {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions"})
    CHECK(config[name].int64() == wanted[name].int64());
  CHECK(config["layer_norm_epsilon"].real() == wanted["layer_norm_epsilon"].real());
  for (auto const* name : {"model_type", "activation_function"}) CHECK(config[name].string() == wanted[name].string());

  // Another trainer of the model takes the weights, whatever its policies and its micro-batch.
  ct::trainer<task, ct::precision::fp64, ct::optimizer::sgd> other;
  other.load_pretrained(directory / "checkpoint");
  CHECK(largest_difference(other) < 1e-5);
  ct::trainer<task> resumed;
  resumed.load(directory / "checkpoint");
  CHECK(largest_difference(resumed) == largest_difference(t));

  // To be opened by make_hugging_face.py --open.
  if (auto const* const kept = std::getenv("CONSTRAIN_KEEP_CHECKPOINT")) t.save(kept);
}

TEST_CASE("a size of a GPT-2 under Transformers' other name, and other names of its activation") {
  CHECK(refusal("\"n_head\"", "\"num_attention_heads\"").empty());
  CHECK(refusal("\"n_head\": 2", "\"n_head\": 2, \"num_attention_heads\": 4") ==
        "its n_head is 4, the trainer's is 2; load it into a trainer with the same n_head");
  CHECK(refusal("\"n_embd\": 8", "\"n_embd\": 8, \"hidden_size\": 9").starts_with("its n_embd is 9,"));
  CHECK(refusal("\"n_layer\": 2", "\"n_layer\": 2, \"num_hidden_layers\": 3").starts_with("its n_layer is 3,"));
  CHECK(refusal("\"n_positions\"", "\"max_position_embeddings\": 7, \"n_positions\"")
            .starts_with("its n_positions is 7,"));
  CHECK(refusal("\"n_positions\"", "\"max_position_embeddings\": null, \"n_positions\"").empty());
  // The other name counts, whatever the first says.
  CHECK(refusal("\"n_head\": 2", "\"n_head\": 4, \"num_attention_heads\": 2").empty());
  CHECK(refusal("\"n_embd\": 8", "\"n_embd\": 9, \"hidden_size\": 8").empty());
  CHECK(refusal("\"n_layer\": 2", "\"n_layer\": 3, \"num_hidden_layers\": 2").empty());
  CHECK(refusal("\"n_positions\": 6", "\"n_positions\": 7, \"max_position_embeddings\": 6").empty());
  for (auto const* const name : {"gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast"})
    CHECK(refusal("gelu_new", name).empty());
  CHECK(refusal("gelu_new", "gelu").starts_with("its activation_function is gelu, the trainer's is gelu_new;"));
}

TEST_CASE("the head of a GPT-2 is the token embedding: it may stand for it, but not differ from it") {
  temporary_directory const directory;
  auto const path = directory / "model.safetensors";
  auto const source = ct::io::safetensors_file::open(theirs + "/model.safetensors");
  std::vector<ct::io::tensor> tensors;
  std::size_t token = 0;
  for (auto const& t : source.tensors()) {
    if (t.name == "transformer.wte.weight") token = tensors.size();
    tensors.push_back(t);
  }
  auto const original = tensors[token];
  // The head alone.
  tensors[token].name = "lm_head.weight";
  ct::io::write_safetensors(path, tensors);
  ct::trainer<task> t;
  CHECK(t.load_pretrained(path).text() == "all weights were found, and no others");
  CHECK(largest_difference(t) < 1e-5);
  // Both, with the head in FP64.
  std::vector<float> values(original.bytes.size() / sizeof(float));
  std::memcpy(values.data(), original.bytes.data(), original.bytes.size());
  values[0] = -0.0F, values[1] = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> head(values.begin(), values.end());
  head[0] = 0;
  tensors[token].dtype = "F64", tensors[token].bytes = std::as_bytes(std::span(head));
  tensors.push_back(original), tensors.back().bytes = std::as_bytes(std::span(values));
  auto const load = [&] {
    ct::io::write_safetensors(path, tensors);
    return sentence([&] { t.load_pretrained(path); });
  };
  CHECK(load().empty());
  std::vector<float> signs = values;
  signs[0] = 0;
  tensors[token].dtype = "F32", tensors[token].bytes = std::as_bytes(std::span(signs));
  CHECK(load().empty());
  signs.back() += 1;
  CHECK(load().find("have a 'lm_head.weight' that differs from 'transformer.wte.weight'") != std::string::npos);
  tensors[token].dtype = "I32";
  CHECK_FALSE(load().empty());
  head.back() *= 1 + 1e-12;
  tensors[token].dtype = "F64", tensors[token].bytes = std::as_bytes(std::span(head));
  CHECK_FALSE(load().empty());
}

TEST_CASE("weights of another model are refused, and nothing changes") {
  CHECK(refusal("\"n_head\": 2", "\"n_head\": 2").empty());
  CHECK(refusal("\"n_head\": 2", "\"n_head\": 4") ==
        "its n_head is 4, the trainer's is 2; load it into a trainer with the same n_head");
  CHECK(refusal("\"n_head\": 2", "\"n_head\": \"2\"").find("has a string at byte ") != std::string::npos);
  CHECK(refusal("\"vocab_size\": 11", "\"vocab_size\": \"11\"") ==
        "its vocab_size is the text \"11\", the trainer's is 11; load it into a trainer with the same vocab_size");
  for (auto const* other : {"null", "[2]", "{}", "true", "2.5"})
    CHECK_FALSE(refusal("\"n_head\": 2", std::string("\"n_head\": ") + other).empty());
  CHECK(refusal("\"n_inner\": null", "\"n_inner\": 32").empty()); // as by default
  CHECK(refusal("\"n_inner\": null", "\"n_inner\": 999").starts_with("its n_inner is 999, the trainer's is 32;"));
  CHECK(refusal("gelu_new", "relu") ==
        "its activation_function is relu, the trainer's is gelu_new; load it into a trainer with the same "
        "activation_function");
  CHECK(refusal("\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"").starts_with("its model_type is bert"));
  for (auto const* const value : {"false", "null"}) // in Transformers 5, a bidirectional model
    CHECK(refusal("\"use_cache\"", std::string("\"is_causal\": ") + value + ", \"use_cache\"")
              .starts_with("its is_causal is false, the trainer's is true;"));
  CHECK(refusal("\"use_cache\"", "\"is_causal\": true, \"use_cache\"").empty());
  CHECK(refusal("1e-05", "1.01e-05").starts_with("its layer_norm_epsilon is 1.01e-05, the trainer's is 1e-05;"));
  CHECK(refusal("1e-05", "0.00001").empty());                                  // the same number
  CHECK(refusal("\"eos_token_id\": null", "\"eos_token_id\": 50256").empty()); // of no meaning to the model

  {
    temporary_directory const directory;
    std::filesystem::copy(theirs, directory.path, std::filesystem::copy_options::recursive);
    ct::test::write_file(directory / "config.json", "{}");
    ct::trainer<task> t;
    CHECK(sentence([&] { t.load_pretrained(directory.path.string()); }) ==
          "the configuration '" + directory / "config.json" +
              "' has no value for 'n_layer'; use the file that was saved with the weights");
    CHECK(sentence([&] { t.load_pretrained(std::string("a\0b", 3)); }).find("has a NUL byte") != std::string::npos);
  }

  ct::trainer<task_of<ct::gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 12, .context = 6}>> wider;
  CHECK(sentence([&] { wider.load_pretrained(theirs + "/model.safetensors"); })
            .ends_with(
                "its shape of 'transformer.wte.weight' is [11, 8], the trainer's is [12, 8]; load it into a trainer "
                "with the same shape of 'transformer.wte.weight'"));
  ct::trainer<task_of<ct::gpt2{.layers = 3, .heads = 2, .width = 8, .vocabulary = 11, .context = 6}>> deeper;
  CHECK(sentence([&] { deeper.load_pretrained(theirs + "/model.safetensors"); })
            .ends_with("have no tensor 'transformer.h.2.ln_1.weight'; load the weights of the same model, or "
                       "pass {.strict = false} to keep the values of missing tensors"));
  ct::trainer<task_of<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 11, .context = 6}>> shallower;
  auto const before = largest_difference(shallower);
  CHECK(sentence([&] {
          shallower.load_pretrained(theirs + "/model.safetensors");
        }).find("' that the model does not have; load the weights of") != std::string::npos);
  CHECK(largest_difference(shallower) == before);
  temporary_directory const empty;
  CHECK(sentence([&] { shallower.load_pretrained(empty.path.string()); })
            .ends_with("has no model.safetensors and no model.safetensors.index.json; save the model there as "
                       "safetensors"));
}
