#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../../values_of.hpp"
#include "../gradients_of_transformers.hpp"
#include "../same_tensors.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

// A Llama, a Mistral, a Qwen2 and a Qwen3 go from Transformers to a trainer and back (tests/fixtures/make_llama.py made
// llama/).

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr ct::llama llama3{.layers = 2,
                           .heads = 4,
                           .key_value_heads = 2,
                           .width = 24,
                           .hidden = 20,
                           .vocabulary = 23,
                           .context = 64,
                           .tied = false,
                           .rotary = {.theta = 30, .factor = 8, .original_context = 16}};
constexpr ct::llama mistral{.layers = 2,
                            .heads = 4,
                            .key_value_heads = 2,
                            .width = 24,
                            .hidden = 20,
                            .vocabulary = 23,
                            .context = 64,
                            .tied = false,
                            .window = 5,
                            .rotary = {.theta = 10000}};
constexpr ct::llama qwen2{.layers = 2,
                          .heads = 4,
                          .key_value_heads = 1,
                          .width = 16,
                          .hidden = 20,
                          .vocabulary = 23,
                          .context = 64,
                          .epsilon = 1e-6,
                          .biases = true,
                          .rotary = {.theta = 10000, .factor = 4}};
constexpr ct::llama qwen3{.layers = 2,
                          .heads = 3,
                          .key_value_heads = 3,
                          .width = 16,
                          .hidden = 20,
                          .vocabulary = 23,
                          .context = 64,
                          .head_width = 6,
                          .epsilon = 1e-6,
                          .head_norms = true,
                          .rotary = {.theta = 1e6}};
constexpr ct::llama without_window = [] {
  auto m = mistral;
  m.window = 0;
  return m;
}();
/// The same model for packed documents.
constexpr ct::llama packed(ct::llama m) {
  m.packed = true;
  return m;
}

/// A task of two sequences, or of one with two documents.
template <ct::llama m>
using task_of =
    ct::task<m, ct::causal_lm,
             m.packed ? ct::micro_batch{.sequences = 1, .tokens = 28} : ct::micro_batch{.sequences = 2, .tokens = 14}>;

std::string directory_of(std::string const& name) { return std::string(CONSTRAIN_FIXTURES) + "/llama/" + name; }

/// Loads the weights of Transformers and compares the logits, the loss and every gradient.
template <ct::llama m, class... policies> void check_model(std::string const& name, double bound) {
  CAPTURE(name);
  using trainer = ct::trainer<task_of<m>, ct::precision::fp64, policies...>;
  trainer t{{.learning_rate = 0}};
  t.load_pretrained(directory_of(name));
  fixture const results("llama/" + name + "/results.safetensors");
  auto const tokens = results.integers("inputs"), labels = results.integers("labels");
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i < tokens.size(); ++i) positions.push_back(static_cast<std::int32_t>(i % 14));
  ct::array_view const both[] = {tokens, positions};
  ct::array_list const inputs(std::span<ct::array_view const>(both).first(m.packed ? 2 : 1));
  auto const logits = t.predict(inputs).logits;
  CHECK(relative_error(logits, results.reals("logits")) < bound);
  CHECK(std::abs(t.step(t.batch(inputs, labels)).loss - results.reals("loss")[0]) < bound);
  check_gradients_of_transformers<ct::llama>(t, results, m.layers, bound);
  // With the casts of Transformers to fp32.
  CHECK(relative_error(logits, results.reals("logits_with_casts")) < 1e-5);
  check_gradients_of_transformers<ct::llama>(t, results, m.layers, 1e-5, "gradient_with_casts.");
}

/// The error of load_pretrained for a copy of a fixture with a different config.json.
template <ct::llama m = llama3>
std::string refusal(std::string const& from, std::string const& to, char const* fixture = "llama") {
  temporary_directory const directory;
  std::filesystem::copy(directory_of(fixture), directory.path, std::filesystem::copy_options::recursive);
  auto text = read_file(directory / "config.json");
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file(directory / "config.json", text.replace(at, from.size(), to));
  ct::trainer<task_of<m>> t;
  auto said = sentence([&] { t.load_pretrained(directory.path.string()); });
  auto const its = said.find("its ");
  return its == said.npos ? said : said.substr(its);
}

} // namespace

TEST_CASE("a Llama, a Mistral, a Qwen2 and a Qwen3 of Transformers give their logits, losses and gradients here") {
  check_model<llama3>("llama", 1e-10);
  check_model<llama3, ct::attention::flash, ct::checkpoint::every<1>>("llama", 1e-10);
  check_model<mistral>("mistral", 1e-10);
  check_model<mistral, ct::attention::flash>("mistral", 1e-10);
  check_model<qwen2>("qwen2", 1e-10);
  check_model<qwen3>("qwen3", 1e-10);
}

TEST_CASE("packed documents give the logits, losses and gradients that Transformers computes of each alone") {
  check_model<packed(llama3)>("llama", 1e-10);
  check_model<packed(qwen3), ct::attention::flash, ct::checkpoint::every<1>>("qwen3", 1e-10);
}

TEST_CASE("a checkpoint of a Llama is what Transformers would have saved") {
  temporary_directory const directory;
  ct::trainer<task_of<llama3>, ct::precision::fp64> t;
  t.load_pretrained(directory_of("llama"));
  t.save(directory / "checkpoint");
  check_same_tensors(directory / "checkpoint/model.safetensors", directory_of("llama") + "/model.safetensors");
  // Transformers 5 refuses a real value that is written as an integer.
  auto const text = read_file(directory / "checkpoint/config.json");
  for (auto const* const member : {"\"rope_theta\": 30.0", "\"factor\": 8.0", "\"high_freq_factor\": 4.0"})
    CHECK(text.find(member) != text.npos);
  // To be opened by make_llama.py --open.
  if (auto const* const kept = std::getenv("CONSTRAIN_KEEP_CHECKPOINT")) t.save(kept);
}

TEST_CASE("a config.json that contradicts the Llama is refused") {
  CHECK(refusal("\"rope_theta\": 30.0", "\"rope_theta\": 30").empty());
  CHECK(refusal("\"rope_theta\": 30.0", "\"rope_theta\": 10000.0")
            .starts_with("its rope_theta is 10000, the trainer's is 30;"));
  CHECK(refusal("\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\"")
            .starts_with("its rope_type is yarn, the trainer's is llama3;"));
  CHECK(
      refusal("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4").starts_with("its num_key_value_heads is 4"));
  CHECK(refusal("1e-05", "1e-06").starts_with("its rms_norm_eps is 1e-06, the trainer's is 1e-05;"));
  CHECK(refusal("\"model_type\": \"llama\"", "\"model_type\": \"qwen2\"").starts_with("its model_type is qwen2"));
  // The kind of model comes first, whatever else differs.
  CHECK(refusal("64,\n  \"mlp_bias\": false,\n  \"model_type\": \"llama\"", "32,\n  \"model_type\": \"gemma\"")
            .starts_with("its model_type is gemma"));
  // As Transformers 4 wrote it, and older versions of it.
  auto const old = [](std::string const& members) { return refusal("\"rope_parameters\"", members + "\"other\""); };
  std::string const theta = "\"rope_theta\": 30.0, ", scaling = "\"rope_scaling\": ";
  std::string const original = "\"original_max_position_embeddings\": 16";
  CHECK(old(theta + scaling + "{\"rope_type\": \"llama3\", \"factor\": 8.0, " + original + "}, ").empty());
  CHECK(old(theta + scaling + "{\"type\": \"llama3\", \"factor\": 8.0, " + original + "}, ").empty());
  CHECK(old(theta + scaling + "{\"rope_type\": \"linear\", \"factor\": 8.0}, ")
            .starts_with("its rope_type is linear, the trainer's is llama3;"));
  CHECK(old(theta + scaling + "{\"type\": \"yarn\", \"factor\": 8.0}, ") ==
        "its rope_type is yarn, the trainer's is llama3; load it into a trainer with the same rope_type");
  CHECK(old(theta + scaling + "{\"type\": \"llama3\", \"factor\": 4.0}, ")
            .starts_with("its rotary factor is 4, the trainer's is 8;"));
  CHECK(old(theta + scaling + "null, ").starts_with("its rope_type is default, the trainer's is llama3;"));
  CHECK(old(theta).starts_with("its rope_type is default,"));
  CHECK(old("").starts_with("its rope_theta is 10000, the trainer's is 30;"));
  CHECK(refusal("\"rope_type\": \"llama3\"", "\"partial_rotary_factor\": 0.5, \"rope_type\": \"llama3\"")
            .starts_with("its partial_rotary_factor is 0.5, the trainer's is 1;"));
  for (auto const* const value : {"", "\"tie_word_embeddings\": true,"}) // the file has a head
    CHECK(refusal("\"tie_word_embeddings\": false,", value).empty());
  CHECK(refusal("\"mlp_bias\": false", "\"mlp_bias\": true").starts_with("its mlp_bias is true, the trainer's is"));
  CHECK(refusal("\"mlp_bias\": false,", "").empty());
  CHECK(refusal("\"attention_bias\": false", "\"attention_bias\": true")
            .starts_with("its attention_bias is true, the trainer's is false;"));
  CHECK(refusal<qwen3>("\"attention_bias\": false", "\"attention_bias\": true", "qwen3")
            .starts_with("its attention_bias is true, the trainer's is false;"));
  // A Qwen2 has biases, whatever the key says, and only a Llama's MLP can have them.
  for (auto const* const key : {"mlp_bias", "attention_bias"}) {
    auto const members = "\"" + std::string(key) + "\": true, \"use_cache\"";
    CHECK(refusal<mistral>("\"use_cache\"", members, "mistral").empty());
    CHECK(refusal<qwen2>("\"use_cache\"", members, "qwen2").empty());
  }
  CHECK(refusal<qwen3>("\"use_cache\"", "\"mlp_bias\": true, \"use_cache\"", "qwen3").empty());
}

TEST_CASE("a Llama with the rotary embeddings or the attention of another model in Transformers 5 is refused") {
  auto const with = [](std::string const& members) { return refusal("\"use_cache\"", members + ", \"use_cache\""); };
  for (auto const* const value : {"false", "null"})
    CHECK(with(std::string("\"is_causal\": ") + value).starts_with("its is_causal is false, the trainer's is true;"));
  CHECK(with("\"is_causal\": true").empty());
  // rope_scaling counts instead of rope_parameters, and has its own rope_theta or that of the file.
  std::string const scaling = "\"rope_scaling\": ";
  CHECK(with(scaling + "{\"type\": \"linear\", \"factor\": 8}").starts_with("its rope_theta is 10000,"));
  CHECK(with("\"rope_theta\": 30, " + scaling + "{\"type\": \"linear\", \"factor\": 8}")
            .starts_with("its rope_type is linear, the trainer's is llama3;"));
  CHECK(
      with(scaling + "{\"type\": \"yarn\", \"factor\": 8, \"rope_theta\": 30}").starts_with("its rope_type is yarn,"));
  for (auto const* const nothing : {"null", "{}"}) CHECK(with(scaling + nothing).empty());
  CHECK(with(scaling + "\"linear\"").find("where an object is needed") != std::string::npos);
  auto const in_scaling = [](std::string const& theta, std::string const& more = {}) {
    auto const begin = "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"rope_theta\": ";
    return refusal("\"rope_parameters\"", begin + theta + more + "}, \"other\"");
  };
  std::string const original = "\"original_max_position_embeddings\": ";
  CHECK(in_scaling("30", ", " + original + "16").empty());
  CHECK(in_scaling("31", ", " + original + "16").starts_with("its rope_theta is 31, the trainer's is 30;"));
  // The context before it was extended: max_position_embeddings by default.
  CHECK(in_scaling("30") == "its original_max_position_embeddings is 64, the trainer's is 16; load it into a trainer "
                            "with the same original_max_position_embeddings");
  CHECK(in_scaling("30", "}, " + original + "16, \"nothing\": {").empty());
  CHECK(with(original + "16").empty());
  CHECK(with(original + "7").starts_with("its original_max_position_embeddings is 7,"));
}

TEST_CASE("a Llama's config.json with several forms of one value has the value that Transformers 5 reads") {
  auto const with = [](std::string const& members) { return refusal("\"use_cache\"", members + ", \"use_cache\""); };
  CHECK(with("\"rope_theta\": 10000").empty()); // rope_parameters has 30
  CHECK(refusal("\"rope_theta\": 30.0", "\"rope_theta\": 31.0}, \"rope_theta\": 30, \"nothing\": {\"a\": 1")
            .starts_with("its rope_theta is 31, the trainer's is 30;"));
  // A rope_scaling that is not empty counts instead of rope_parameters.
  std::string const original = "\"original_max_position_embeddings\": 16";
  std::string const scaling =
      "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"rope_theta\": 30, " + original + "}";
  CHECK(refusal("\"rope_parameters\": {", scaling + ", \"rope_parameters\": {\"stale\": 1}, \"nothing\": {").empty());
  CHECK(refusal("\"rope_parameters\": {",
                scaling + ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 7}, \"nothing\": {")
            .empty());
  // Other names of the same functions.
  CHECK(refusal("\"hidden_act\": \"silu\"", "\"hidden_act\": \"swish\"").empty());
  CHECK(refusal("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"")
            .starts_with("its hidden_act is gelu, the trainer's is silu;"));
  for (auto const* const type : {"type", "rope_type"}) {
    auto const linear = [&](std::string const& factor) {
      return refusal<mistral>("\"sliding_window\": 5",
                              "\"sliding_window\": 5, \"rope_theta\": 10000, \"rope_scaling\": {\"" +
                                  std::string(type) + "\": \"linear\"" + factor + "}",
                              "mistral");
    };
    CHECK(linear(", \"factor\": 1.0").empty());
    CHECK(linear(", \"factor\": 2.0").starts_with("its rope_type is linear, the trainer's is default;"));
    CHECK(linear("").starts_with("its rope_type is linear, the trainer's is default;"));
  }
  auto const scaled = [](std::string const& factor) {
    auto const members = R"("rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4, )"
                         R"("original_max_position_embeddings": 16, "factor": )";
    return refusal<mistral>("\"rope_type\": \"default\"", members + factor, "mistral");
  };
  CHECK(scaled("1.0").empty());
  CHECK(scaled("2.0").starts_with("its rope_type is llama3, the trainer's is default;"));
}

TEST_CASE("a Mistral needs the same window, and without one it is a Llama") {
  std::string const window = "\"sliding_window\": 5";
  CHECK(refusal<mistral>(window, "\"sliding_window\": 5.0", "mistral").empty());
  CHECK(refusal<mistral>(window, "\"sliding_window\": 7", "mistral")
            .starts_with("its sliding_window is 7, the trainer's is 5;"));
  CHECK(refusal<mistral>(window, "\"sliding_window\": null", "mistral")
            .starts_with("its effective sliding_window is 0, the trainer's is 5;"));
  CHECK(refusal<mistral>(window, "\"other\": 5", "mistral")
            .starts_with("its effective sliding_window is 4096, the trainer's is 5;"));
  CHECK(refusal<without_window>(window, window, "mistral")
            .starts_with("its effective sliding_window is 5, the trainer's is 0;"));
  CHECK(refusal<without_window>(window, "\"sliding_window\": null", "mistral").empty());
  // Only a Mistral's window counts, and only a Qwen's use_sliding_window.
  std::string const use = "\"use_sliding_window\": true";
  CHECK(refusal("\"use_cache\"", window + ", \"use_cache\"").empty());
  CHECK(refusal("\"use_cache\"", window + ", " + use + ", \"use_cache\"").empty());
  CHECK(refusal<mistral>(window, window + ", " + use, "mistral").empty());
  CHECK(refusal<without_window>(window, "\"sliding_window\": null, " + use, "mistral").empty());
  // What a trainer saves is a Mistral again.
  temporary_directory const directory;
  ct::trainer<task_of<mistral>> t;
  t.load_pretrained(directory_of("mistral"));
  t.save(directory / "saved");
  auto const text = read_file(directory / "saved/config.json");
  CHECK(text.find("\"model_type\": \"mistral\"") != text.npos);
  CHECK(text.find("\"sliding_window\": 5") != text.npos);
}

TEST_CASE("a Llama whose width is not a multiple of its heads is saved as a Mistral without a window") {
  // Transformers 5 refuses such a LlamaConfig, even with head_dim.
  static constexpr ct::llama uneven{.layers = 1,
                                    .heads = 3,
                                    .key_value_heads = 1,
                                    .width = 8,
                                    .hidden = 8,
                                    .vocabulary = 23,
                                    .context = 16,
                                    .head_width = 4,
                                    .rotary = {.theta = 10000}};
  temporary_directory const directory;
  ct::trainer<task_of<uneven>> t({}, {.seed = 1}), loaded({}, {.seed = 2});
  t.save(directory / "saved");
  auto const text = read_file(directory / "saved/config.json");
  CHECK(text.find("\"model_type\": \"mistral\"") != text.npos);
  CHECK(text.find("\"sliding_window\": null") != text.npos);
  loaded.load_pretrained(directory / "saved");
  CHECK(values_of(loaded) == values_of(t));
}

TEST_CASE("all layers need the same window: layer_types and max_window_layers say which have it") {
  std::string const sliding = "\"sliding_attention\"", full = "\"full_attention\"", window = "\"sliding_window\": 5";
  auto const types = [](std::string const& list) { return "\"layer_types\": [" + list + "]"; };
  auto const of_mistral = [&](std::string const& list) {
    return refusal<mistral>(window, window + ", " + types(list), "mistral");
  };
  CHECK(of_mistral(full + ", " + sliding) ==
        "its layer_types is several, the trainer's is sliding_attention; load it into a trainer with the same "
        "layer_types");
  CHECK(of_mistral(full + ", " + full).starts_with("its effective sliding_window is 0, the trainer's is "));
  CHECK(refusal<without_window>(window, window + ", " + types(full + ", " + full), "mistral").empty());
  CHECK(of_mistral(sliding + ", " + sliding).empty());
  auto const none = "\"sliding_window\": null, ";
  CHECK(refusal<without_window>(window, none + types(full + ", " + full), "mistral").empty());
  CHECK(refusal<without_window>(window, none + types(sliding), "mistral").starts_with("its layer_types is sliding_"));
  // A Llama has no layer_types.
  CHECK(refusal("\"use_cache\"", types(full + ", " + sliding) + ", \"use_cache\"").empty());

  auto const text = read_file(directory_of("qwen3") + "/config.json");
  auto const begin = text.find("\"layer_types\""), end = text.find("\"vocab_size\"");
  auto const of_qwen3 = [&](std::string const& members) {
    return refusal<qwen3>(text.substr(begin, end - begin),
                          members + R"(, "model_type": "qwen3", "num_attention_heads": 3, "num_hidden_layers": 2,
                            "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true, )",
                          "qwen3");
  };
  std::string const uses = "\"use_sliding_window\": true, \"sliding_window\": 3", from = ", \"max_window_layers\": ";
  CHECK(of_qwen3(types(full + ", " + sliding)).starts_with("its layer_types is several, the trainer's is full_"));
  CHECK(of_qwen3(uses + from + "0, " + types(full + ", " + full)).empty());
  // Transformers' former name of full_attention.
  CHECK(of_qwen3(types("\"attention\", " + full)).empty());
  CHECK(of_qwen3(types("\"attention\", " + sliding)).starts_with("its layer_types is several,"));
  CHECK(of_mistral("\"attention\", " + full).starts_with("its effective sliding_window is 0, the trainer's is "));
  CHECK(of_qwen3(uses + from + "1").starts_with("its use_sliding_window is true, the trainer's is false;"));
  CHECK(of_qwen3(uses + from + "2").empty());
  CHECK(of_qwen3("\"use_sliding_window\": true, \"sliding_window\": null" + from + "0").empty());
}

TEST_CASE("a tied model does not take the weights of one that is not") {
  constexpr auto tied = [] {
    auto m = llama3;
    m.tied = true;
    return m;
  }();
  ct::trainer<task_of<tied>> t;
  for (bool const strict : {true, false})
    CHECK(sentence([&] {
            t.load_pretrained(directory_of("llama"), {.strict = strict});
          }).find("its tie_word_embeddings is false") != std::string::npos);
  for (bool const strict : {true, false}) // without config.json
    CHECK(sentence([&] { t.load_pretrained(directory_of("llama") + "/model.safetensors", {.strict = strict}); })
              .ends_with("have a 'lm_head.weight' that differs from 'model.embed_tokens.weight', but the model ties "
                         "these two: it has one tensor for both; load the weights into a model that does not tie "
                         "them"));
}

TEST_CASE("a model that is not tied takes every file that has a head") {
  constexpr auto untied = [] {
    auto m = qwen2;
    m.tied = false;
    return m;
  }();
  // As Transformers: a head that differs from the token embedding stays apart, whatever tie_word_embeddings says.
  temporary_directory const directory;
  std::filesystem::copy(directory_of("llama"), directory.path, std::filesystem::copy_options::recursive);
  auto text = read_file(directory / "config.json");
  std::string const key = "\"tie_word_embeddings\": ";
  write_file(directory / "config.json", text.replace(text.find(key + "false"), key.size() + 5, key + "true"));
  ct::trainer<task_of<llama3>, ct::precision::fp64> t;
  for (bool const strict : {true, false})
    CHECK(t.load_pretrained(directory.path.string(), {.strict = strict}).text() ==
          "all weights were found, and no others");
  fixture const results("llama/llama/results.safetensors");
  CHECK(relative_error(t.predict(results.integers("inputs")).logits, results.reals("logits")) < 1e-10);
  // Without a head, the file is that of a tied model.
  ct::trainer<task_of<untied>> u;
  CHECK(sentence([&] {
          u.load_pretrained(directory_of("qwen2"));
        }).find("have no tensor 'lm_head.weight'; load the weights of the same model, or pass") != std::string::npos);
  CHECK(u.load_pretrained(directory_of("qwen2"), {.strict = false}).missing ==
        std::vector<std::string>{"lm_head.weight"});
}

TEST_CASE("sizes of published models") {
  using one = ct::task<ct::llama{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 8}>;
  CHECK(ct::trainer<one, ct::precision::bf16>::parameter_count == 1'235'814'400); // Llama 3.2 1B
  using mistral_task = ct::task<ct::mistral_7b, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 8}>;
  CHECK(ct::trainer<mistral_task, ct::precision::bf16>::parameter_count == 7'241'732'096);
}
