#include "../sentence.hpp"

#include <constrain/io/safetensors_index.hpp>
#include <doctest/doctest.h>

#include <string>

namespace io = constrain::io;
using constrain::test::sentence;

namespace {

io::safetensors_index parsed(std::string const& text) { return io::safetensors_index::parse(text, "it"); }
std::string refusal(std::string const& text) {
  return sentence([&] { parsed(text); });
}

} // namespace

TEST_CASE("an index lists the file of each tensor") {
  auto const index = parsed(R"({"metadata": {"total_size": 12, "weight_map": 1}, "weight_map": {"b": "m-2.safetensors",
                                "a": "m-1.safetensors", "c": "m-2.safetensors"}})");
  CHECK(index.files == std::vector<std::string>{"m-2.safetensors", "m-1.safetensors"});
  REQUIRE(index.tensors.size() == 3);
  for (auto const& [name, file] : {std::pair{"a", 1u}, {"b", 0u}, {"c", 0u}}) {
    REQUIRE(index.find(name) != nullptr);
    CHECK(index.find(name)->file == file);
  }
  CHECK(index.find("") == nullptr);
  CHECK(index.find("aa") == nullptr);
  CHECK(index.find("d") == nullptr);
}

TEST_CASE("files are listed in the order in which the index first names them") {
  auto const index = parsed(R"({"weight_map": {"f": "y.safetensors", "e": "x.safetensors", "d": "y.safetensors",
                                "c": "x.safetensors", "b": "y.safetensors", "a": "x.safetensors"}})");
  CHECK(index.files == std::vector<std::string>{"y.safetensors", "x.safetensors"});
  for (auto const& [name, file] : {std::pair{"a", 1u}, {"b", 0u}, {"c", 1u}, {"d", 0u}, {"e", 1u}, {"f", 0u}})
    CHECK(index.find(name)->file == file);
}

TEST_CASE("an index that names other files, or nothing, is refused") {
  auto const with_file = [](std::string const& file) { return refusal(R"({"weight_map": {"a": ")" + file + "\"}}"); };
  for (auto const* file : {"../m.safetensors", "/m.safetensors", "x/m.safetensors", ".safetensors", "", "m.bin", "m"})
    CHECK(with_file(file) ==
          "the index 'it' has the tensor 'a' in the file '" + std::string(file) +
              "', a name that is not supported; give safetensors files whose names have at most 128 letters, digits, "
              "'.', '_' and '-', end with .safetensors and do not begin with '.', and an index of them");
  CHECK(with_file("m.safetensors").empty());
  CHECK(refusal(R"({"weight_map": {}})") == "the index 'it' lists no tensor; get the file again");
  CHECK(refusal(R"({"weight_map": {"a": 1}})").find("where a string is needed") != std::string::npos);
  CHECK(
      refusal(R"({"weight_map": {"a": "../m", "b": 1}})").starts_with("the index 'it' has the tensor 'a' in the file"));
  CHECK(refusal(R"({"weight_map": ["a"]})").find("where an object is needed") != std::string::npos);
  CHECK(refusal(R"({"metadata": {}})").find("weight_map") != std::string::npos);
  CHECK(refusal(R"({"weight_map": {"a": "m.safetensors", "a": "m.safetensors"}})").find("twice") != std::string::npos);
  CHECK(refusal("").starts_with("'it' "));
  CHECK(refusal(std::string((std::size_t{64} << 20) + 1, ' ')) ==
        "the index 'it' has 67108865 bytes, more than the 67108864 that this library reads; get the file again");
}
