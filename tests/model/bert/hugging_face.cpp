#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../gradients_of_transformers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

// Two BERTs go from Transformers to trainers and back (tests/fixtures/make_bert_checkpoints.py made bert/).

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr ct::bert small{.layers = 2, .heads = 2, .width = 8, .hidden = 12, .vocabulary = 13, .context = 6, .types = 2};
using classifier = ct::task<small.with_classes(3), ct::classification, ct::micro_batch{.sequences = 4}>;
using masked_lm = ct::task<small, ct::masked_lm, ct::micro_batch{.sequences = 4}>;

std::string directory_of(std::string const& name) { return std::string(CONSTRAIN_FIXTURES) + "/bert/" + name; }

/// Loads the weights of Transformers and compares the logits where there are tokens, the loss and every gradient.
template <class task, class... policies> void check_model(std::string const& name) {
  CAPTURE(name);
  ct::trainer<task, ct::precision::fp64, policies...> t{{.learning_rate = 0}};
  t.load_pretrained(directory_of(name));
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
  auto const ours = ct::io::safetensors_file::open(directory / "checkpoint/model.safetensors");
  auto const expected = ct::io::safetensors_file::open(directory_of(name) + "/model.safetensors");
  CHECK(ours.tensors().size() == expected.tensors().size());
  for (auto const& of : expected.tensors()) {
    CAPTURE(of.name);
    auto const* const same = ours.find(of.name);
    REQUIRE(same != nullptr);
    CHECK(same->dtype == of.dtype);
    CHECK(same->shape == of.shape);
    CHECK(std::equal(same->bytes.begin(), same->bytes.end(), of.bytes.begin(), of.bytes.end()));
  }
  // To be opened by make_bert_checkpoints.py --open.
  if (auto const* const kept = std::getenv("CONSTRAIN_KEEP_CHECKPOINT"); kept != nullptr && name == "classifier")
    t.save(kept);
}

} // namespace

TEST_CASE("BERTs of Transformers give their logits, losses and gradients here") {
  check_model<classifier>("classifier");
  check_model<classifier, ct::attention::flash, ct::checkpoint::every<1>>("classifier");
  check_model<masked_lm>("masked_lm");
}

TEST_CASE("a checkpoint of a BERT is what Transformers would have saved") {
  check_saved<classifier>("classifier");
  check_saved<masked_lm>("masked_lm");
}

TEST_CASE("sizes of published models") {
  using base = ct::task<ct::bert{}, ct::masked_lm, ct::micro_batch{.sequences = 1}>;
  CHECK(ct::trainer<base>::parameter_count == 109'514'298); // bert-base-uncased
  using large = ct::task<ct::bert_large.with_classes(2), ct::classification, ct::micro_batch{.sequences = 1}>;
  CHECK(ct::trainer<large>::parameter_count == 335'143'938); // bert-large-uncased
}
