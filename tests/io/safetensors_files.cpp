#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/io/safetensors_files.hpp>
#include <constrain/io/safetensors_writer.hpp>
#include <constrain/io/text_bytes.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace io = constrain::io;
using namespace constrain::test;

namespace {

std::byte const bytes[] = {std::byte{1}, std::byte{2}};

/// Writes a file with tensors of two bytes.
void write_tensors(std::string const& path, std::vector<std::string> const& names) {
  std::vector<io::tensor> tensors;
  for (auto const& name : names) tensors.push_back({name, "U8", {2}, bytes});
  io::write_safetensors(path, tensors);
}

/// Two files, with a and c in the first and b in the second, and their index.
struct two_files {
  temporary_directory directory;

  two_files() {
    write_tensors(directory / "m-1.safetensors", {"a", "c"});
    write_tensors(directory / "m-2.safetensors", {"b"});
    write_index(R"("a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors")");
  }

  void write_index(std::string const& members) const { write_file(index(), "{\"weight_map\": {" + members + "}}"); }
  std::string index() const { return directory / "m.index.json"; }
  /// The error of opening the files.
  std::string refusal() const {
    return sentence([&] { io::safetensors_files::open_indexed(index()); });
  }
};

} // namespace

TEST_CASE("the tensors of several files are found by name") {
  two_files const two;
  auto const files = io::safetensors_files::open_indexed(two.index());
  REQUIRE(files.tensors().size() == 3);
  for (auto const* name : {"a", "b", "c"}) {
    auto const* const found = files.find(name);
    REQUIRE(found != nullptr);
    CHECK(found->name == name);
    REQUIRE(found->bytes.size() == 2);
    CHECK(found->bytes[1] == bytes[1]);
  }
  CHECK(files.find("d") == nullptr);
  CHECK(files.tensors()[2] == files.find("b"));
  auto const one = io::safetensors_files::open(two.directory / "m-1.safetensors");
  CHECK(one.tensors().size() == 2);
  CHECK(one.find("b") == nullptr);
}

TEST_CASE("the bytes of several files are parsed where they are") {
  two_files const two;
  auto const index = read_file(two.index());
  std::vector<std::string> asked;
  std::vector<std::string> const texts{read_file(two.directory / "m-1.safetensors"),
                                       read_file(two.directory / "m-2.safetensors")};
  auto const files = io::safetensors_files::parse_indexed(index, "some/index", [&](std::string const& name) {
    asked.push_back(name);
    return io::text_bytes(texts[name == "m-2.safetensors"]);
  });
  CHECK(asked == std::vector<std::string>{"m-1.safetensors", "m-2.safetensors"});
  REQUIRE(files.find("b") != nullptr);
  auto const* const begin = reinterpret_cast<std::byte const*>(texts[1].data());
  CHECK(files.find("b")->bytes.data() == begin + texts[1].size() - 2);
  CHECK(sentence([&] {
          io::safetensors_files::parse_indexed(index, "some/index",
                                               [&](std::string const&) { return io::text_bytes(texts[1]); });
        }) == "the file 'some/m-1.safetensors' has a tensor 'b' that the index 'some/index' does not list for it; get "
              "the files again");
}

TEST_CASE("an index and files that disagree are refused") {
  two_files const two;
  two.write_index(R"("a": "m-1.safetensors", "b": "m-2.safetensors")");
  CHECK(two.refusal() == "the file '" + (two.directory / "m-1.safetensors") + "' has a tensor 'c' that the index '" +
                             two.index() + "' does not list for it; get the files again");
  two.write_index(R"("a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-1.safetensors")");
  CHECK(two.refusal() ==
        "the index '" + two.index() +
            "' lists the tensor 'b' in 'm-1.safetensors', which does not have it; get the files again");
  two.write_index(R"("a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors")");
  CHECK(two.refusal().find("has a tensor 'c' that the index") != std::string::npos);
  two.write_index(R"("a": "m-1.safetensors", "b": "m-3.safetensors", "c": "m-1.safetensors")");
  CHECK(two.refusal().find("m-3.safetensors' ") != std::string::npos);
  write_file(two.directory / "m-3.safetensors", "x");
  CHECK(two.refusal().find("m-3.safetensors' ") != std::string::npos);
  CHECK(sentence([&] { io::safetensors_files::open_indexed(two.directory / "none"); }).starts_with("the index '"));
}
