#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::concat, ct::test::sentence;

namespace {

using options = data::labelled_json_lines_options;
using integers = std::vector<std::int32_t>;

data::examples read(std::string const& content, options const& o) {
  ct::test::temporary_directory const directory;
  ct::test::write_file(directory / "texts.jsonl", content);
  return data::labelled_json_lines(directory / "texts.jsonl", o);
}

integers copy_of(ct::array_view const& a) {
  auto const all = a.integers();
  return {all.begin(), all.end()};
}

/// What is said of these lines, without the directory.
std::string refusal(std::string const& lines, options const& o = {.length = 4, .class_names = {"no", "yes"}}) {
  return sentence([&] { data::detail::parse_labelled_json_lines(lines, "x.jsonl", o); });
}

struct classifier {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 8});
    x = x + ct::self_attention(ct::linear("qkv", x, 24), lengths, {.heads = 2, .causal = false});
    return ct::linear("head", ct::select_token(x, 0), 2);
  }
};
using task = ct::task<classifier{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 6}>;

} // namespace

TEST_CASE("texts are cut or padded, and labels are names or integers") {
  std::string const lines =
      "{\"text\": \"long one\", \"label\": \"yes\"}\n\n \r\n{\"label\": 0, \"id\": [1], \"text\": "
      "\"a\\u00e9\"}\r\n{\"text\": \"\", \"label\": 1}";
  auto const all = read(lines, {.length = 4, .class_names = {"no", "yes"}});
  REQUIRE(all.inputs().size() == 2);
  CHECK(copy_of(all.inputs()[0]) == integers{'l', 'o', 'n', 'g', 'a', 0xc3, 0xa9, 0, 0, 0, 0, 0});
  CHECK(copy_of(all.inputs()[1]) == integers{4, 3, 0});
  CHECK(copy_of(all.labels()[0]) == integers{1, 0, 1});
  auto const tokens = read(lines, {.length = 4, .class_names = {"no", "yes"}, .lengths = false});
  CHECK(tokens.inputs().size() == 1);
  CHECK(copy_of(tokens.inputs()[0]) == copy_of(all.inputs()[0]));
  auto const other =
      read("{\"sentence\": \"b\", \"class\": 7, \"text\": 1}", {.length = 1, .text = "sentence", .label = "class"});
  CHECK(copy_of(other.inputs()[0]) == integers{'b'});
  CHECK(copy_of(other.labels()[0]) == integers{7});
  CHECK(all.fingerprint() == read(lines, {.length = 4, .class_names = {"no", "yes"}}).fingerprint());
}

TEST_CASE("labelled texts after a byte-order mark") {
  auto const all = read("\xef\xbb\xbf{\"text\": \"ab\", \"label\": 1}\n", {.length = 2});
  CHECK(copy_of(all.inputs()[0]) == integers{'a', 'b'});
  CHECK(copy_of(all.labels()[0]) == integers{1});
}

TEST_CASE("lines that have no text or class are named") {
  std::string const good = "{\"text\": \"a\", \"label\": 1}\n";
  CHECK(refusal(good + "{\"label\": 1}") == "'x.jsonl:2' has no 'text'; add the text as a string");
  CHECK(refusal(good + "\n{\"text\": \"a\"}") == "'x.jsonl:3' has no 'label'; add the class as an integer or a name");
  CHECK(refusal(good + "{\"text\": \"a\", \"label\": \"perhaps\"}") ==
        "'x.jsonl:2' has the label 'perhaps', which is not in .class_names (2 names); add it there, or correct "
        "the line");
  CHECK(refusal("{\"text\": \"a\", \"label\": \"no\"}", {.length = 4}) ==
        "'x.jsonl:1' has the label 'no', a name, but .class_names is empty; name the classes there, or give integers");
  for (auto const* label : {"2", "-1", "2147483647", "9223372036854775807"})
    CHECK(refusal(concat({"{\"text\": \"a\", \"label\": ", label, "}"})) ==
          concat({"'x.jsonl:1' has the label ", label, ", outside [0, 2); give integers from 0 to 1"}));
  CHECK(refusal("{\"text\": \"a\", \"label\": 3}", {.length = 4, .classes = 3}) ==
        "'x.jsonl:1' has the label 3, outside [0, 3); give integers from 0 to 2");
  CHECK(refusal("{\"text\": \"a\", \"label\": 2147483647}", {.length = 4})
            .starts_with("'x.jsonl:1' has the label 2147483647, outside [0, 2147483647)"));
  for (auto const* label : {"null", "true", "[1]", "{}", "1.0", "1e0", "99999999999999999999"}) {
    auto const said = refusal(concat({"{\"text\": \"a\", \"label\": ", label, "}"}));
    CAPTURE(said);
    CHECK(said.starts_with("'x.jsonl:1' has "));
    CHECK(said.find("is needed") != std::string::npos);
  }
  for (auto const* line :
       {"[]", "{\"text\": 5, \"label\": 1}", "{\"text\": \"a\", \"label\": 1", "{\"text\": \"\xff\", \"label\": 1}"})
    CHECK(refusal(line).starts_with("'x.jsonl:1' "));
  for (auto const* lines : {"", "\n", " \r\n\n"})
    CHECK(refusal(lines) == "'x.jsonl' has no labelled text; give a file with at least one");
  CHECK(sentence([] { data::labelled_json_lines("/nowhere/x.jsonl", {.length = 4}); }).ends_with("check the path"));
}

TEST_CASE("options of labelled texts that are out of range are refused") {
  CHECK(refusal("", {}) == "labelled_json_lines_options: .length is 0; give an integer of at least 1");
  CHECK(refusal("", {.length = 4, .classes = -1}) ==
        "labelled_json_lines_options: .classes is -1; give an integer of at least 0");
  CHECK(refusal("", {.length = std::int64_t{1} << 31}) ==
        "labelled_json_lines_options: .length is 2147483648; give at most 2147483647");
  CHECK(refusal("", {.length = 4, .class_names = {"a", "b"}, .classes = 3}) ==
        "labelled_json_lines_options: .classes is 3, but .class_names has 2 names; give one name per class, or leave "
        ".classes out");
  CHECK(refusal("", {.length = 4, .class_names = {"a", "b", "a"}}) ==
        "labelled_json_lines_options: .class_names has 'a' twice; give each class its own name");
  CHECK(refusal("", {.length = 4, .label = "text"}) ==
        "labelled_json_lines_options: .text and .label are both 'text'; name two different members of a line");
}

TEST_CASE("fit trains on labelled texts, and reports their accuracy") {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += concat(
        {"{\"text\": \"", i % 3 == 0 ? "good " : "bad ", i, "\", \"label\": \"", i % 3 == 0 ? "yes" : "no", "\"}\n"});
  auto const parts = read(lines, {.length = 6, .class_names = {"no", "yes"}}).split(0.25);
  ct::trainer<task> t({.learning_rate = 1e-2f}, {.seed = 1});
  auto const r = ct::fit(t, parts.train, {.steps = 60, .validation = &parts.validation, .log = nullptr});
  REQUIRE(r.validation.has_value());
  CHECK(r.validation->tokens == 15);
  CHECK(r.validation->accuracy == 1);
  auto const three = read("{\"text\": \"a\", \"label\": 2}", {.length = 6});
  CHECK(sentence([&] {
          ct::fit(t, three, {.steps = 61, .log = nullptr});
        }).find("is 2 at position 0, outside [0, 2)") != std::string::npos);
}
