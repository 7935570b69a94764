#include "../sentence.hpp"
#include "../temporary_directory.hpp"
#include "corpus_text.hpp"

#include <constrain/base/label.hpp>
#include <constrain/data/json_lines.hpp>
#include <constrain/data/random.hpp>
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::test::labels_of, ct::test::text_of;

namespace {

data::corpus read(std::string const& content, data::json_lines_options const& options = {}) {
  ct::test::temporary_directory const directory;
  ct::test::write_file(directory / "texts.jsonl", content);
  return data::json_lines(directory / "texts.jsonl", options);
}

std::string refusal(std::string const& content) {
  return ct::test::sentence([&] { read(content); });
}

} // namespace

TEST_CASE("texts are packed one after another") {
  auto const corpus = read("{\"text\": \"one\"}\n\n  \r\n{\"id\": 7, \"text\": \"tw\\u00f6\"}\r\n{\"text\": \"\"}");
  CHECK(text_of(corpus) == "one\ntw\xc3\xb6\n\n");
  CHECK(labels_of(corpus) == text_of(corpus));
  CHECK(text_of(read("{\"text\": \"a\"}\n{\"text\": \"b\"}\n", {.end = "<end>"})) == "a<end>b<end>");
}

TEST_CASE("what is given is no label") {
  auto const corpus =
      read("{\"input\": \"2+2=\", \"output\": \"4\"}\n{\"output\": \"yes\", \"input\": \"no?\"}\n{\"text\": \"x\"}\n");
  CHECK(text_of(corpus) == "2+2=4\nno?yes\nx\n");
  CHECK(labels_of(corpus) == "____4\n___yes\nx\n");
  auto const [train, validation] = corpus.split(0.5); // of 15 tokens, 7
  CHECK(labels_of(train) == "____4\n__");
  CHECK(labels_of(validation) == "_yes\nx\n");
  CHECK(corpus.fingerprint() != data::corpus::from_bytes(text_of(corpus)).fingerprint());
  // Tokens and masks that differ in the same bits do not cancel.
  CHECK(read("{\"input\": \"1+1=\", \"output\": \"1 or 2\"}\n").fingerprint() !=
        read("{\"input\": \"1+1=0\", \"output\": \" or 2\"}\n").fingerprint());
  CHECK(corpus.labels(0, corpus.size()) == 8);
  CHECK(corpus.labels(2, 4) == 2);
  // Blocks keep what is given.
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    auto const blocks = corpus.split(0.5, seed, 5);
    std::string together;
    for (auto const* part : {&blocks.train, &blocks.validation})
      for (std::int64_t i = 0; i < part->size(); i += 5)
        together += labels_of(*part).substr(static_cast<std::size_t>(i), 5) + "|";
    for (std::string const block : {"____4|", "\n___y|", "es\nx\n|"}) CHECK(together.find(block) != std::string::npos);
    CHECK(together.size() == 18);
  }
}

TEST_CASE("texts of one length are cut off or padded") {
  auto const corpus = read("{\"text\": \"long one\"}\n{\"input\": \"a\", \"output\": \"b\"}\n", {.length = 4});
  CHECK(text_of(corpus) == std::string("longab\n\0", 8));
  CHECK(labels_of(corpus) == "_ong_b\n_");
}

TEST_CASE("a split cuts no text of one length") {
  std::string lines, expected;
  for (char c = 'a'; c <= 'k'; ++c) {
    lines += std::string("{\"text\": \"") + c + c + c + "\"}\n";
    expected += std::string(3, c) + "\n";
  }
  auto const corpus = read(lines, {.length = 4});
  CHECK(text_of(corpus) == expected);
  CHECK(corpus.text_length() == 4);
  CHECK(read(lines).text_length() == 1);
  auto const [train, validation] = corpus.split(0.25); // of 11 texts, 2
  CHECK(text_of(train) == expected.substr(0, 36));
  CHECK(text_of(validation) == expected.substr(36));
  CHECK(validation.text_length() == 4);
  CHECK(text_of(train.split(0.5).validation) == expected.substr(20, 16));
  CHECK(text_of(corpus.split(0.5, 7, 3).validation) == text_of(corpus.split(0.5, 7, 4).validation));
  CHECK(text_of(corpus.split(0.5, 7, 5).validation) == text_of(corpus.split(0.5, 7, 8).validation));
  CHECK(corpus.split(0.5, 7, std::numeric_limits<std::int64_t>::max()).train.size() == 44);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    auto const blocks = corpus.split(0.5, seed, 3);
    for (auto const* part : {&blocks.train, &blocks.validation})
      for (std::size_t i = 0; i < text_of(*part).size(); i += 4)
        CHECK(expected.find(text_of(*part).substr(i, 4)) % 4 == 0); // the text is whole
  }
  CHECK(ct::test::sentence([] { data::corpus::from_bytes("abcde", {}, 2); }) ==
        "a corpus of 5 bytes ends within a text of 2 tokens; give only complete texts");
  CHECK(ct::test::sentence([] { data::corpus::from_bytes("abcde", {}, 0); }) ==
        "corpus::from_bytes: text_length is 0; give an integer of at least 1");
}

TEST_CASE("a value of null is a missing one, as tools write columns that a row lacks") {
  auto const corpus = read("{\"text\": null, \"input\": \"2+2=\", \"output\": \"4\", \"messages\": null}\n"
                           "{\"text\": null, \"input\": null, \"output\": null, \"messages\": "
                           "[{\"role\": \"assistant\", \"content\": \"x\"}]}");
  CHECK(text_of(corpus).starts_with("2+2=4\n"));
  CHECK(text_of(corpus).find('x') != std::string::npos);
  CHECK(refusal("{\"text\": null}").find("texts.jsonl:1' has neither 'text' nor") != std::string::npos);
}

TEST_CASE("a byte-order mark is skipped at the start of the file only") {
  std::string const mark = "\xef\xbb\xbf";
  CHECK(text_of(read(mark + "{\"text\": \"a\"}\n{\"text\": \"b\"}\n")) == "a\nb\n");
  CHECK(text_of(read(mark + "{\"text\": \"" + mark + "\"}")) == mark + "\n");
  CHECK(text_of(read(mark + "\n{\"text\": \"a\"}")) == "a\n");
  CHECK(refusal(mark).ends_with("are empty; give a file with at least one text that is not empty"));
  CHECK(refusal(mark + "{\"text\": 5}").find("texts.jsonl:1' has 5 at byte 12 ") != std::string::npos);
  CHECK(refusal("{\"text\": \"a\"}\n" + mark + "{}").find("texts.jsonl:2' cannot be read as JSON at byte 0") !=
        std::string::npos);
  CHECK(refusal(mark + mark + "{}").find("texts.jsonl:1' cannot be read as JSON at byte 3") != std::string::npos);
}

TEST_CASE("lines that cannot be read are named") {
  CHECK(refusal("{\"text\": \"a\"}\n{\"input\": \"a\"}\n")
            .ends_with("texts.jsonl:2' has neither 'text' nor both 'input' and 'output' nor 'messages'; add 'text', "
                       "both 'input' and 'output', or 'messages'"));
  CHECK(refusal("{\"text\": 5}").find("texts.jsonl:1' has 5 at byte") != std::string::npos);
  CHECK(refusal("\n\n{\"text\": \"a\"").find("texts.jsonl:3'") != std::string::npos);
  CHECK(refusal("[]").find("texts.jsonl:1'") != std::string::npos);
  CHECK(refusal("{\"text\": \"\xff\"}").find("texts.jsonl:1'") != std::string::npos);
  CHECK(refusal("\n").ends_with("are empty; give a file with at least one text that is not empty"));
  CHECK(refusal("").ends_with("are empty; give a file with at least one text that is not empty"));
  CHECK(
      ct::test::sentence([] { read("{\"text\": \"a\"}", {.length = -1}); }) ==
      "json_lines_options: .length is -1; give 0 to keep the length of each text, or a number of tokens of at least 1");
  CHECK(ct::test::sentence([] { data::corpus::from_bytes("abc", {true}); }) ==
        "a corpus of 3 bytes has 1 prompt mark; give one mark per byte, or none");
}

TEST_CASE("random tokens fill their vocabulary evenly") {
  auto const corpus = data::random_tokens(30'000, 300, 5);
  CHECK(corpus.size() == 30'000);
  CHECK(corpus.vocabulary() == 300);
  std::vector<int> count(300);
  for (std::int64_t i = 0; i < corpus.size(); ++i) ++count[static_cast<std::size_t>(corpus.token(i))];
  double statistic = 0; // chi squared of 299 degrees of freedom: 299 +- 24
  for (int c : count) statistic += (c - 100.0) * (c - 100.0) / 100.0;
  CHECK(statistic > 200);
  CHECK(statistic < 400);
  CHECK(corpus.fingerprint() == data::random_tokens(30'000, 300, 5).fingerprint());
  CHECK(corpus.fingerprint() != data::random_tokens(30'000, 300, 6).fingerprint());
  CHECK(data::random_tokens(1, 65536).size() == 1);
  CHECK(ct::test::sentence([] { data::random_tokens(0, 5); }) ==
        "0 random tokens of a vocabulary of 5 cannot be drawn; give at least one token, and a vocabulary from 1 to "
        "65536");
}

TEST_CASE("lines longer than what is read at once, and ends on its edges") {
  constexpr std::size_t at_once = std::size_t{1} << 18;
  for (std::size_t const length : {at_once - 20, at_once - 13, at_once - 12, at_once - 11, at_once, 3 * at_once + 5}) {
    auto const line = "{\"text\": \"" + std::string(length, 'a') + "\"}";
    CHECK(text_of(read(line + "\n{\"text\": \"b\"}")) == std::string(length, 'a') + "\nb\n");
    CHECK(text_of(read(line)) == std::string(length, 'a') + "\n");
  }
  CHECK(
      refusal("{\"text\": \"" + std::string(at_once, 'a') + "\"}\n\n{}\n").find("texts.jsonl:3' has neither 'text'") !=
      std::string::npos);
}

TEST_CASE("more tokens than memory has bytes are refused before any are made") {
  for (auto const length :
       {std::int64_t{1} << 50, std::int64_t{1'000'000'000'000'000'000}, std::numeric_limits<std::int64_t>::max()}) {
    auto const said = ct::test::sentence([&] { read("{\"text\": \"a\"}\n", {.length = length}); });
    CHECK(said.starts_with("a text padded to .length has " + std::to_string(length) + " tokens of 1 byte, more than "));
    CHECK(said.ends_with(" bytes of this machine's memory; give a smaller .length"));
    CHECK(ct::test::sentence([&] {
            data::random_tokens(length, 5);
          }).starts_with("the corpus has " + std::to_string(length) + " tokens of 2 bytes, more than the "));
  }
}
