#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "../sentence.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"

using namespace constrain::io;
using constrain::test::sentence;

namespace {

std::string refusal(std::string_view text) {
  return sentence([&] { json::parse(text, "f.json"); });
}

} // namespace

TEST_CASE("json: values of every kind are read") {
  auto const root =
      json::parse(R"( {"a": null, "b": [true, false], "c": -12, "d": 1.5e3, "e": "x", "f": {}, "g": []} )");
  CHECK(root.kind() == json_kind::object);
  CHECK(root.size() == 7);
  CHECK(root["a"].is_null());
  CHECK(root["c"].int64() == -12);
  CHECK(root["c"].number() == "-12");
  CHECK(root["d"].real() == 1500);
  CHECK(root["e"].string() == "x");
  CHECK(root["f"].size() == 0);
  CHECK(root["g"].size() == 0);
  CHECK_FALSE(root.find("h"));
  CHECK_FALSE(root.value("h"));
  CHECK_FALSE(root.value("a"));
  CHECK(root.value("e")->string() == "x");
  CHECK_FALSE(root["a"].value("a")); // not an object
  std::vector<bool> elements;
  for (auto const& element : root["b"].elements()) elements.push_back(element.boolean());
  CHECK(elements == std::vector{true, false});
  std::string names;
  for (auto const& [name, value] : root.members()) names += name;
  CHECK(names == "abcdefg");
}

TEST_CASE("json: a handle keeps its text alive") {
  auto const inner = [] { return json::parse(R"({"a": {"b": ["deep"]}})")["a"]["b"]; }();
  for (auto const& element : inner.elements()) CHECK(element.string() == "deep");
}

TEST_CASE("json: escapes") {
  CHECK(json::parse(R"("\"\\\/\b\f\n\r\t")").string() == "\"\\/\b\f\n\r\t");
  CHECK(json::parse(R"("\u0041\u00e9\u20AC\ud83d\ude00|")").string() == "A\u00e9\u20ac\U0001f600|");
  CHECK(json::parse(R"("\u0000x")").string() == std::string("\0x", 2));
  CHECK(json::parse(R"({"\u0061": 1})")["a"].int64() == 1);
}

TEST_CASE("json: limits of numbers") {
  CHECK(json::parse("-9223372036854775808").int64() == std::numeric_limits<std::int64_t>::min());
  CHECK(json::parse("18446744073709551615").uint64() == std::numeric_limits<std::uint64_t>::max());
  CHECK(json::parse("0").int64() == 0);
  CHECK(std::signbit(json::parse("-0.0").real()));
  CHECK(sentence([] { json::parse("[9223372036854775808]").elements().begin().operator*().int64(); }) ==
        "'the text' has 9223372036854775808 at byte 1 where a 64-bit integer is needed; correct it or write it again");
  CHECK(sentence([] { json::parse("-1").uint64(); }) ==
        "'the text' has -1 at byte 0 where an integer from 0 to 2^64 - 1 is needed; correct it or write it again");
  CHECK_FALSE(sentence([] { json::parse("1.0").int64(); }).empty());
  CHECK_FALSE(sentence([] { json::parse("1e999").real(); }).empty());
  CHECK_FALSE(sentence([] { json::parse("1e39").real<float>(); }).empty());
}

TEST_CASE("json: a wrong kind and a missing member are sentences") {
  auto const root = json::parse(R"({"a": "1"})", "run/state.json");
  CHECK(sentence([&] { root["a"].int64(); }) ==
        "'run/state.json' has a string at byte 7 where a number is needed; correct it or write it again");
  CHECK(sentence([&] { root["b"]; }) ==
        "'run/state.json' has no 'b' in the object at byte 0; add it or write the text again");
  CHECK_FALSE(sentence([&] { root["a"].elements(); }).empty());
  CHECK_FALSE(sentence([&] { root["a"].members(); }).empty());
  CHECK_FALSE(sentence([&] { root["a"].size(); }).empty());
  CHECK_FALSE(sentence([&] { root["a"]["b"]; }).empty());
  CHECK_FALSE(sentence([&] { root.string(); }).empty());
}

namespace {

struct bad {
  std::string_view text;
  int byte;
  std::string_view reason;
};
using namespace std::string_view_literals;
constexpr bad not_json[] = {
    {"", 0, "the text ends too early"},
    {"  ", 2, "the text ends too early"},
    {"{", 1, "a member needs a name in quotes"},
    {"[", 1, "the text ends too early"},
    {"[1", 2, "a ',' or ']' is missing"},
    {"[1,", 3, "the text ends too early"},
    {"[1,]", 3, "no value begins here"},
    {"[,1]", 1, "no value begins here"},
    {"[1 2]", 3, "a ',' or ']' is missing"},
    {"{\"a\"}", 4, "a ':' is missing"},
    {"{\"a\":}", 5, "no value begins here"},
    {"{\"a\":1,}", 7, "a member needs a name in quotes"},
    {"{a:1}", 1, "a member needs a name in quotes"},
    {"{1:1}", 1, "a member needs a name in quotes"},
    {"{\"a\":1 \"b\":2}", 7, "a ',' or '}' is missing"},
    {"{\"a\":1,\"a\":2}", 8, "the name 'a' occurs twice in one object"},
    {"{\"a\":1,\"b\":{},\"\\u0061\":2}", 15, "the name 'a' occurs twice in one object"},
    {"[1}", 2, "a ',' or ']' is missing"},
    {"]", 0, "no value begins here"},
    {"1 2", 2, "there is more text after the end of the value"},
    {"{}x", 2, "there is more text after the end of the value"},
    {"tru", 0, "an unknown word"},
    {"nul", 0, "an unknown word"},
    {"falsE", 0, "an unknown word"},
    {"truee", 4, "there is more text after the end of the value"},
    {"NaN", 0, "no value begins here"},
    {"Infinity", 0, "no value begins here"},
    {"'a'", 0, "no value begins here"},
    {"// x\n1", 0, "no value begins here"},
    {"\xef\xbb\xbf{}", 0, "no value begins here"},
    {"01", 2, "a number with a leading zero"},
    {"-01", 3, "a number with a leading zero"},
    {"+1", 0, "no value begins here"},
    {".5", 0, "no value begins here"},
    {"-", 1, "a minus sign without digits"},
    {"1.", 2, "a decimal point without digits after it"},
    {"1.e5", 2, "a decimal point without digits after it"},
    {"1e", 2, "an exponent without digits"},
    {"1e+", 3, "an exponent without digits"},
    {"0x10", 1, "there is more text after the end of the value"},
    {"\"", 1, "an unterminated string"},
    {"\"a", 2, "an unterminated string"},
    {"\"a\\", 3, "an unknown escape"},
    {"\"\\\"", 3, "an unterminated string"},
    {"\"\\x\"", 3, "an unknown escape"},
    {"\"\\u12\"", 5, "\\u needs four hexadecimal digits"},
    {"\"\\u12", 5, "\\u needs four hexadecimal digits"},
    {"\"\\u12g4\"", 5, "\\u needs four hexadecimal digits"},
    {"\"\\ud800\"", 7, "half of a surrogate pair"},
    {"\"\\udc00\"", 7, "half of a surrogate pair"},
    {"\"\\ud800\\u0041\"", 13, "half of a surrogate pair"},
    {"\"\\ud800\\n\"", 8, "half of a surrogate pair"},
    {"\"a\nb\"", 2, "a control character in a string"},
    {"\"\t\"", 1, "a control character in a string"},
    {"\"\0\""sv, 1, "a control character in a string"},
    {"\0"sv, 0, "no value begins here"},
    {"1\0"sv, 1, "there is more text after the end of the value"},
    {"\"\x80\"", 1, "it is not UTF-8"},
    {"\"\xc3\"", 1, "it is not UTF-8"},
    {"\"\xc0\x80\"", 1, "it is not UTF-8"},
    {"\"\xe0\x80\x80\"", 1, "it is not UTF-8"},
    {"\"\xed\xa0\x80\"", 1, "it is not UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, "it is not UTF-8"},
    {"\"\xf8\x88\x80\x80\x80\"", 1, "it is not UTF-8"},
    {"\"\xff\"", 1, "it is not UTF-8"},
};

} // namespace

TEST_CASE("json: everything that is not exactly JSON is refused, with its byte") {
  static_assert(std::size(not_json) >= 40);
  for (auto const& c : not_json) {
    CAPTURE(c.text);
    CHECK(refusal(c.text) == "'f.json' cannot be read as JSON at byte " + std::to_string(c.byte) + ": " +
                                 std::string(c.reason) + "; correct it or write it again");
  }
}

TEST_CASE("json: names are the same where they stand for the same") {
  std::string const one[] = {"a", "é", "😀", "\\\"", "a\\nb", "/", ""};
  std::string const same[] = {"\\u0061", "\\u00e9", "\\ud83d\\uDE00", "\\u0022", "a\\u000ab", "\\/", ""};
  std::string const other[] = {"\\u0062", "e\\u0301", "\\ud83d\\ude01", "\\\\", "a\\\\nb", "\\\\/", "\\u0000"};
  auto const object = [](std::string const& first, std::string const& second) {
    return "{\"" + first + "\": 1, \"x\": 2, \"" + second + "\": 3}";
  };
  for (std::size_t i = 0; i < std::size(one); ++i) {
    auto const& name = one[i];
    CHECK(refusal(object(name, same[i])).find("occurs twice in one object") != std::string::npos);
    CHECK(refusal(object(same[i], name)).find("occurs twice in one object") != std::string::npos);
    CHECK(refusal(object(name, other[i])) == "");
    CHECK(refusal(object(other[i], same[i])) == "");
    CHECK(refusal(object(name + "n", same[i])) == "");
  }
  CHECK(refusal(object(std::string(100, 'n'), std::string(100, 'n'))) ==
        "'f.json' cannot be read as JSON at byte 117: the name '" + std::string(80, 'n') +
            "...' occurs twice in one object; correct it or write it again");
}

TEST_CASE("json: levels are bounded") {
  auto const nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  CHECK(refusal(nested(64)).empty());
  CHECK(refusal(nested(65)) ==
        "'f.json' cannot be read as JSON at byte 64: nesting of more than 64 levels; correct it or write it again");
  CHECK_FALSE(refusal(std::string(1 << 20, '[')).empty());
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK_FALSE(refusal(objects).empty());
}

TEST_CASE("json: a tree holds at most 9 times its text") {
  std::vector<std::string> texts{"[0", "[\"\"", "[[]", "{\"\":0", "[{}"};
  for (int i = 0; i < 1000; ++i)
    for (std::size_t k = 0; k < texts.size(); ++k) {
      std::string const item[] = {",0", ",\"\"", ",[]", ",\"" + std::to_string(i) + "\":0", ",{}"};
      texts[k] += item[k];
    }
  for (auto& text : texts) {
    text += text[0] == '[' ? ']' : '}';
    auto const tree = json_parser::parse(text, "");
    CHECK(tree.nodes.size() <= text.size() / 2 + 1);
    CHECK(tree.nodes.capacity() * sizeof(json_node) + tree.text.capacity() <= 16 * text.size());
  }
}

TEST_CASE("json: a valid text with any one byte changed or cut never does more than throw") {
  std::string const text = R"({"a": [1, -2.5e-3, "x\u00e9\n"], "b": {"c": true, "d": null}, "e": "é"})";
  REQUIRE(refusal(text).empty());
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK_FALSE(refusal(text.substr(0, i)).empty());
    for (int byte = 0; byte < 256; ++byte) {
      auto changed = text;
      changed[i] = static_cast<char>(byte);
      refusal(changed);
    }
  }
}

TEST_CASE("json writer: what a person reads") {
  json_writer w;
  w.object().member("name", "a \"quoted\"\\\n\x01 é").member("steps", 500).member("on", true).member("none", nullptr);
  w.array("loss", json_layout::row).element(0.5).element(1e-5).end();
  w.array("files").object(json_layout::row).member("x", 1u).end().object(json_layout::row).end().end();
  w.object("empty").end().array("also").end().end();
  CHECK(w.text() == R"({
  "name": "a \"quoted\"\\\n\u0001 é",
  "steps": 500,
  "on": true,
  "none": null,
  "loss": [0.5, 1e-05],
  "files": [
    {"x": 1},
    {}
  ],
  "empty": {},
  "also": []
})");
  CHECK(json::parse(w.text())["name"].string() == "a \"quoted\"\\\n\x01 é");
}

TEST_CASE("json writer: numbers come back bit for bit") {
  auto const check = [](auto value) {
    json_writer w;
    w.element(value);
    CHECK(json::parse(w.text()).template real<decltype(value)>() == value);
  };
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    auto const wide = std::bit_cast<double>(random());
    auto const narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(wide) && std::isnormal(wide)) check(wide);
    if (std::isfinite(narrow)) check(narrow);
  }
  check(std::numeric_limits<double>::max());
  check(std::numeric_limits<double>::min());
  check(std::numeric_limits<double>::denorm_min());
  check(std::numeric_limits<double>::infinity());
  check(-std::numeric_limits<float>::infinity());
  json_writer w;
  w.array().element(std::nan("")).element(std::numeric_limits<std::int64_t>::min()).end();
  auto element = json::parse(w.text()).elements();
  auto it = element.begin();
  CHECK(std::isnan((*it).real()));
  ++it;
  CHECK((*it).int64() == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("json writer: whole numbers with a point are reals to every reader") {
  json_writer w(json_reals::with_point);
  w.array(json_layout::row).element(1).element(1.0).element(-0.0).element(1e-5).element(1e300).element(0.5f);
  w.element(std::nan("")).element("1").end();
  CHECK(w.text() == R"([1, 1.0, -0.0, 1e-05, 1e+300, 0.5, "nan", "1"])");
}

TEST_CASE("json: the longest text has 2^32 - 1 bytes") {
  // Pages that are never written take no memory, and the first byte ends the check of the UTF-8 at once.
  constexpr auto size = std::size_t{1} << 32;
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  auto* const bytes = static_cast<char*>(pages);
  bytes[0] = '\xff';
  auto const refused = [&](std::size_t length) { return sentence([&] { json_tokens({bytes, length}, "f.json"); }); };
  CHECK(refused(size - 1).find("it is not UTF-8") != std::string::npos);
  CHECK(refused(size).find("the text has 2^32 bytes or more") != std::string::npos);
  ::munmap(pages, size);
}

TEST_CASE("json writer: what would not be JSON is refused") {
  json_writer w;
  CHECK(sentence([&] { w.text(); }) == "a JSON text is empty; write a value first");
  CHECK_FALSE(sentence([&] { w.member("a", 1); }).empty());
  w.object();
  CHECK(sentence([&] { w.element(1); }) ==
        "a JSON writer was given a value without a name in an object; give the value a name");
  CHECK_FALSE(sentence([&] { w.text(); }).empty());
  CHECK(sentence([&] { w.member("a", "\xff"); }) ==
        "a string that is not UTF-8 at byte 0 cannot be written as JSON; convert it to UTF-8");
  json_writer full;
  full.element(1);
  CHECK(sentence([&] { full.element(2); }) ==
        "a JSON writer was given a second top-level value; write all values in one object or array");
  CHECK_FALSE(sentence([&] { full.end(); }).empty());
}
