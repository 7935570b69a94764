#include "../sentence.hpp"
#include "corpus_text.hpp"

#include <constrain/data/json_lines.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

// Chats in JSON lines: only what the assistant says is a label.

namespace ct = constrain;
namespace data = constrain::data;
using ct::concat, ct::test::labels_of, ct::test::sentence, ct::test::text_of;

namespace {

data::corpus read(std::string const& lines, data::json_lines_options const& options = {}) {
  return data::detail::parse_json_lines(lines, "x.jsonl", options);
}

std::string message(std::string const& role, std::string const& content) {
  return concat({R"({"role": ")", role, R"(", "content": ")", content, R"("})"});
}
std::string chat(std::vector<std::string> const& messages) {
  std::string text = R"({"messages": [)";
  for (auto const& each : messages) text += (text.back() == '[' ? "" : ", ") + each;
  return text + "]}\n";
}
std::string refusal(std::string const& line) {
  return sentence([&] { read(line); });
}

data::json_lines_options const brackets{.chat = {.begin = "[", .after_role = "]", .end = ";"}};

} // namespace

TEST_CASE("a chat in ChatML") {
  auto const corpus = read(chat({message("system", "Be short."), message("user", "2+2?"), message("assistant", "4")}));
  CHECK(text_of(corpus) == "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
                           "<|im_start|>assistant\n4<|im_end|>\n");
  CHECK(labels_of(corpus) == std::string(text_of(corpus).size() - 12, '_') + "4<|im_end|>\n");
}

TEST_CASE("every turn of the assistant has loss, and no other turn") {
  auto const line = chat({message("user", "a"), message("assistant", "bc"), message("tool", "d"),
                          message("developer", "e"), message("assistant", "")});
  auto const corpus = read(line + "{\"text\": \"x\"}\n", brackets);
  CHECK(text_of(corpus) == "[user]a;[assistant]bc;[tool]d;[developer]e;[assistant];x\n");
  CHECK(labels_of(corpus) == std::string(19, '_') + "bc;" + std::string(8 + 13 + 11, '_') + ";x\n");
  // Cut or padded to one length.
  auto padded = brackets;
  padded.length = 24;
  auto const cut = read(line + chat({message("assistant", "yes")}), padded);
  CHECK(text_of(cut) == "[user]a;[assistant]bc;[t" + std::string("[assistant]yes;") + std::string(9, '\0'));
  CHECK(labels_of(cut) == "___________________bc;__" + std::string("___________yes;_________"));
}

TEST_CASE("a chat that is not one is refused with its line") {
  auto const text = std::string("{\"text\": \"a\"}\n");
  CHECK(refusal(text + chat({message("asistant", "a")})) ==
        "'x.jsonl:2' has a message with the role 'asistant'; give one of system, developer, user, assistant and tool");
  CHECK(refusal(text + "\n" + chat({})) == "'x.jsonl:3' has no message in 'messages'; give at least one");
  for (auto const* line :
       {R"({"messages": {}})", R"({"messages": "a"})", R"({"messages": [5]})", R"({"messages": [{"role": "user"}]})",
        R"({"messages": [{"content": "a"}]})", R"({"messages": [{"role": "user", "content": null}]})",
        R"({"messages": [{"role": 1, "content": "a"}]})", R"({"messages": [{"role": "user", "content": ["a"]}]})"}) {
    CAPTURE(std::string(line));
    CHECK(refusal(line).find("'x.jsonl:1'") != std::string::npos);
  }
}
