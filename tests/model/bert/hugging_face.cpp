#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../../values_of.hpp"
#include "../gradients_of_transformers.hpp"
#include "../same_tensors.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Two BERTs go from Transformers to trainers and back (tests/fixtures/make_bert_checkpoints.py made bert/).

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr ct::bert small{.layers = 2, .heads = 2, .width = 8, .hidden = 12, .vocabulary = 13, .context = 6, .types = 2};
using classifier = ct::task<small.with_classes(3), ct::classification, ct::micro_batch{.sequences = 4}>;
using masked_lm = ct::task<small, ct::masked_lm, ct::micro_batch{.sequences = 4}>;

// Published models.
using base = ct::task<ct::bert{}, ct::masked_lm, ct::micro_batch{.sequences = 1}>;
static_assert(ct::trainer<base>::parameter_count == 109'514'298); // bert-base-uncased
using large = ct::task<ct::bert_large.with_classes(2), ct::classification, ct::micro_batch{.sequences = 1}>;
static_assert(ct::trainer<large>::parameter_count == 335'143'938); // bert-large-uncased

std::string directory_of(std::string const& name) { return std::string(CONSTRAIN_FIXTURES) + "/bert/" + name; }

/// Loads the weights of Transformers and compares the logits where there are tokens, the loss and every gradient.
/// `file`: what follows the name of the directory in the path of the weights.
template <class task, class... policies> void check_model(std::string const& name, std::string const& file = {}) {
  CAPTURE(name);
  CAPTURE(file);
  ct::trainer<task, ct::precision::fp64, policies...> t{{.learning_rate = 0}};
  t.load_pretrained(directory_of(name) + file);
  fixture const results("bert/" + name + "/results.safetensors");
  auto const tokens = results.integers("tokens"), types = results.integers("types");
  auto const lengths = results.integers("lengths"), labels = results.integers("labels");
  auto logits = t.predict({tokens, types, lengths}).logits;
  auto expected = results.reals("logits");
  REQUIRE(logits.size() == expected.size());
  if (labels.size() == tokens.size()) // the logits behind a sequence's end have no meaning
    for (std::size_t i = 0; i < tokens.size(); ++i)
      for (std::size_t c = 0; i % 6 >= static_cast<std::size_t>(lengths[i / 6]) && c < 13; ++c)
        logits[i * 13 + c] = expected[i * 13 + c] = 0;
  CHECK(relative_error(logits, expected) < 1e-10);
  CHECK(std::abs(t.step(t.batch({tokens, types, lengths}, labels)).loss - results.reals("loss")[0]) < 1e-10);
  check_gradients_of_transformers<ct::bert>(t, results, 2, 1e-10);
}

template <class task> void check_saved(std::string const& name) {
  temporary_directory const directory;
  ct::trainer<task, ct::precision::fp64> t;
  t.load_pretrained(directory_of(name));
  t.save(directory / "checkpoint");
  check_same_tensors(directory / "checkpoint/model.safetensors", directory_of(name) + "/model.safetensors");
  auto const config = ct::io::json::parse(read_file(directory / "checkpoint/config.json"), "ours");
  auto const theirs = ct::io::json::parse(read_file(directory_of(name) + "/config.json"), "theirs");
  CHECK(config["architectures"].size() == 1);
  for (auto const& written : config.members()) {
    std::string const key(written.name);
    CAPTURE(key);
    auto const expected_value = theirs.find(key);
    if (written.value.kind() == ct::io::json_kind::number && expected_value)
      CHECK(written.value.real() == expected_value->real());
    if (written.value.kind() == ct::io::json_kind::string) CHECK(written.value.string() == theirs[key].string());
  }
  ct::trainer<task, ct::precision::bf16, ct::optimizer::sgd> other;
  other.load_pretrained(directory / "checkpoint");
  // To be opened by make_bert_checkpoints.py --open.
  if (auto const* const kept = std::getenv("CONSTRAIN_KEEP_CHECKPOINT")) {
    t.save(std::string(kept) + "/" + name);
    t.save(std::string(kept) + "/" + name + "_in_shards", {.max_shard_size = ct::kibibytes(6)});
  }
}

/// The error of load_pretrained for a copy of a directory with a different config.json.
template <class task> std::string refusal(std::string const& name, std::string const& from, std::string const& to) {
  temporary_directory const directory;
  std::filesystem::copy(directory_of(name), directory.path, std::filesystem::copy_options::recursive);
  auto text = read_file(directory / "config.json");
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file(directory / "config.json", text.replace(at, from.size(), to));
  ct::trainer<task> t;
  auto said = sentence([&] { t.load_pretrained(directory.path.string()); });
  auto const its = said.find("its ");
  return its == said.npos ? said : said.substr(its);
}

std::string of_classifier(std::string const& from, std::string const& to) {
  return refusal<classifier>("classifier", from, to);
}
std::string of_masked_lm(std::string const& from, std::string const& to) {
  return refusal<masked_lm>("masked_lm", from, to);
}

} // namespace

TEST_CASE("BERTs of Transformers give their logits, losses and gradients here") {
  check_model<classifier>("classifier");
  check_model<classifier, ct::attention::flash, ct::checkpoint::every<1>>("classifier");
  check_model<masked_lm>("masked_lm");
  check_model<masked_lm, ct::attention::reference, ct::fusion::none>("masked_lm");
  check_model<masked_lm, ct::fusion::all>("masked_lm"); // the head in chunks of rows
}

TEST_CASE("a checkpoint with the names of Google's code and with tensors of other heads") {
  check_model<masked_lm>("masked_lm", "/google_names.safetensors");
}

TEST_CASE("a checkpoint in several files, with their index") { check_model<classifier>("classifier", "_in_shards"); }

TEST_CASE("a new head on a pretrained body") {
  ct::trainer<classifier, ct::precision::fp64> t, fresh, all;
  auto const report = t.load_pretrained(directory_of("masked_lm"), {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                   "classifier.weight", "classifier.bias"});
  REQUIRE(report.unexpected.size() == 5);
  for (auto const& name : report.unexpected) CHECK(name.starts_with("cls.predictions."));
  CHECK(values_of(t, "block.up.bias") != values_of(fresh, "block.up.bias"));
  CHECK(values_of(t, "head.weight") == values_of(fresh, "head.weight"));
  CHECK(report.text().starts_with("not found, values kept: bert.pooler.dense.weight, "));
  // The number of classes in config.json is that of another head.
  using two = ct::task<small.with_classes(2), ct::classification, ct::micro_batch{.sequences = 4}>;
  ct::trainer<two> of_two;
  CHECK(of_two.load_pretrained(directory_of("masked_lm"), {.strict = false}).missing.size() == 4);
  CHECK(sentence([&] {
          of_two.load_pretrained(directory_of("classifier"), {.strict = false});
        }).find("its shape of 'classifier.weight' is [3, 8], the trainer's is [2, 8]") != std::string::npos);
  auto const whole = all.load_pretrained(directory_of("classifier"), {.strict = false});
  CHECK(whole.text() == "all weights were found, and no others");
}

TEST_CASE("a checkpoint of a BERT is what Transformers would have saved") {
  check_saved<classifier>("classifier");
  check_saved<masked_lm>("masked_lm");
}

TEST_CASE("a config.json that contradicts the BERT is refused") {
  CHECK(of_classifier("\"num_attention_heads\": 2", "\"num_attention_heads\": 4") ==
        "its num_attention_heads is 4, the trainer's is 2; load it into a trainer with the same num_attention_heads");
  CHECK(of_classifier("\"model_type\": \"bert\"", "\"model_type\": \"roberta\"")
            .starts_with("its model_type is roberta, the trainer's is bert;"));
  CHECK(of_classifier("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_new\"")
            .starts_with("its hidden_act is gelu_new, the trainer's is gelu;"));
  CHECK(of_classifier("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_python\"").empty());
  CHECK(of_classifier("\"is_decoder\": false", "\"is_decoder\": true")
            .starts_with("its is_decoder is true, the trainer's is false;"));
  for (auto const* const value : {"false", "null"})
    CHECK(of_classifier("\"use_cache\"", std::string("\"is_causal\": ") + value + ", \"use_cache\"").empty());
  CHECK(of_classifier("\"use_cache\"", "\"is_causal\": true, \"use_cache\"")
            .starts_with("its is_causal is true, the trainer's is false;"));
  CHECK(of_classifier("\"use_cache\"", "\"position_embedding_type\": \"relative_key\", \"use_cache\"")
            .starts_with("its position_embedding_type is relative_key, the trainer's is absolute;"));
  CHECK(of_classifier("\"2\": \"LABEL_2\"", "\"2\": \"LABEL_2\", \"3\": \"LABEL_3\"")
            .starts_with("its num_labels is 4, the trainer's is 3;"));
  CHECK(of_classifier("\"use_cache\"", "\"num_labels\": 2, \"use_cache\"").starts_with("its num_labels is 2,"));
  CHECK(of_classifier("\"id2label\"", "\"num_labels\": 2, \"other\"").starts_with("its num_labels is 2,"));
  CHECK(of_classifier("\"id2label\"", "\"other\"").empty()); // the shape of classifier.weight shows the number
  CHECK(of_classifier("1e-12", "1e-05").starts_with("its layer_norm_eps is 1e-05, the trainer's is 1e-12;"));
  CHECK(of_classifier("\"layer_norm_eps\": 1e-12,", "").empty());
  CHECK(of_classifier("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false").empty()); // of another head
  CHECK(of_masked_lm("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false")
            .starts_with("its tie_word_embeddings is false, the trainer's is true;"));
  CHECK(of_masked_lm("\"id2label\"", "\"other\"").empty());
  CHECK(of_masked_lm("\"hidden_size\": 8,", "")
            .ends_with("has no value for 'hidden_size'; use the file that was saved with the weights"));
  CHECK_FALSE(of_masked_lm("\"is_decoder\": false", "\"is_decoder\": 1").empty());
}

TEST_CASE("a value that is not in config.json is the default of Transformers") {
  constexpr auto rounder = [] {
    auto m = small;
    m.epsilon = 1e-5;
    return m;
  }();
  using other = ct::task<rounder, ct::masked_lm, ct::micro_batch{.sequences = 4}>;
  CHECK(refusal<other>("masked_lm", "\"layer_norm_eps\": 1e-12,", "")
            .starts_with("its layer_norm_eps is 1e-12, the trainer's is 1e-05;"));
}

TEST_CASE("a body whose config.json has no number of classes says what a classifier lacks") {
  CHECK(refusal<classifier>("masked_lm", "\"id2label\"", "\"other\"")
            .ends_with(
                "have no tensor 'bert.pooler.dense.weight'; load the weights of the same model, or pass {.strict = "
                "false} to keep the values of missing tensors"));
  using two = ct::task<small.with_classes(2), ct::classification, ct::micro_batch{.sequences = 4}>;
  CHECK(refusal<two>("classifier", "\"id2label\"", "\"other\"")
            .starts_with("its shape of 'classifier.weight' is [3, 8], the trainer's is [2, 8];"));
}

TEST_CASE("the weights of one head are not those of another") {
  ct::trainer<masked_lm> t;
  CHECK(
      sentence([&] { t.load_pretrained(directory_of("classifier") + "/model.safetensors"); })
          .ends_with("have no tensor 'cls.predictions.transform.dense.weight'; load the weights of the same model, or "
                     "pass {.strict = false} to keep the values of missing tensors"));
  ct::trainer<classifier> c;
  CHECK(sentence([&] {
          c.load_pretrained(directory_of("masked_lm") + "/model.safetensors");
        }).find("have no tensor '") != std::string::npos);
}
