#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "../sanitizers.hpp"
#include "../sentence.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/io/safetensors_header.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

// Large files that somebody made to fill the memory of whoever reads them: refusing one takes less than 1 MiB beside
// it.

using constrain::test::sentence;

namespace {

// A sanitizer's own memory grows with what is touched, and its time too.
constexpr bool measured = !constrain::test::under_sanitizer;
constexpr std::size_t large = std::size_t{measured ? 30 : 12} << 20;

std::string refusal(std::string const& file) {
  return sentence([&] { constrain::io::parse_safetensors(std::as_bytes(std::span(file)), "hostile"); });
}

/// "VmRSS:" or "VmHWM:" of this process, in KiB.
long resident(std::string const& what) {
  std::ifstream status("/proc/self/status");
  long kib = -1;
  for (std::string word; status >> word;)
    if (word == what) return status >> kib, kib;
  return kib;
}

std::string file_of(std::string const& header, std::size_t data = 0) {
  std::string file;
  file.reserve(8 + header.size() + data);
  for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  return (file += header).append(data, '\0');
}

struct outcome {
  std::string said;
  long kib = 0; ///< by which refusing the file lets a process grow
  double seconds = 0;
};

outcome refused_by_child(std::string const& file) {
#if defined(__GLIBC__)
  malloc_trim(0); // What is free already would hide what is taken.
#endif
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  auto const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    refusal(file_of("{\"x\":0}")); // The code's own pages.
    auto const before = resident("VmRSS:");
    auto const begin = std::chrono::steady_clock::now();
    auto const said = refusal(file);
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    auto* const out = fdopen(ends[1], "w");
    std::fprintf(out, "%ld %f %.999s", resident("VmHWM:") - before, seconds.count(), said.c_str());
    std::fclose(out);
    _exit(0);
  }
  close(ends[1]);
  outcome result;
  char said[1000] = "";
  auto* const in = fdopen(ends[0], "r");
  CHECK(std::fscanf(in, "%ld %lf %999[^\n]", &result.kib, &result.seconds, said) == 3);
  std::fclose(in);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  result.said = said;
  return result;
}

void refuses(std::string const& kind, std::string const& file, std::string const& reason) {
  auto const seen = measured ? refused_by_child(file) : outcome{refusal(file)};
  CHECK(seen.said.size() < 400);
  CHECK_MESSAGE(seen.said.find(reason) != std::string::npos, seen.said);
  CHECK(seen.kib <= 1024);
  if (measured)
    MESSAGE(kind << ": " << file.size() / 1000 << " kB, refused with " << seen.kib << " KiB in " << seen.seconds
                 << " s");
}

std::string tensor(std::string const& name, std::string const& offsets = "[0,0]", std::string const& shape = "[0]",
                   std::string const& dtype = "U8") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

constexpr std::size_t most = constrain::io::safetensors_maximum_names;

/// `count` members, as `member(i)` writes each, and then `last`.
template <class function> std::string members(std::size_t count, std::string const& last, function const& member) {
  std::string text = "{";
  text.reserve(large + large / 4);
  for (std::size_t i = 0; i < count; ++i) (text += member(i)) += ',';
  return text += last;
}

/// Names that differ at their very end, as long as fills the file; the order is that of `i`.
std::string name(std::size_t i, std::string const& filler = "n") {
  static std::size_t const length = large / most - 60;
  std::string text;
  text.reserve(length);
  while (text.size() + filler.size() + 7 <= length) text += filler;
  return text += std::to_string(1'000'000 + i);
}

std::string empty_tensors(std::size_t count, std::string const& last) {
  return members(count, last + "}", [](auto i) { return tensor(name(i)); });
}

} // namespace

TEST_CASE("safetensors memory: more names than a file may have") {
  refuses("many tensors", file_of(members(large / 60, "}", [](auto i) { return tensor(std::to_string(i)); })),
          "more than 131072 tensors");
  refuses("much metadata",
          file_of("{\"__metadata__\":" +
                  members(large / 14, "", [](auto i) { return "\"" + std::to_string(i) + "\":\"\""; })),
          "more than 131072 entries of metadata");
}

TEST_CASE("safetensors memory: as many tensors as a file may have, and a fault at the very end") {
  refuses("broken JSON", file_of(empty_tensors(most - 1, tensor("x") + "]")), "cannot be read as JSON");
  refuses("an unknown dtype", file_of(empty_tensors(most - 1, tensor("x", "[0,0]", "[0]", "F31"))),
          "the unsupported dtype 'F31'");
  refuses("a shape of other bytes", file_of(empty_tensors(most - 1, tensor("x", "[0,0]", "[1]"))), "need 1");
  refuses("one tensor too many", file_of(empty_tensors(most, tensor("x"))), "more than 131072 tensors");
  refuses("a name at both ends", file_of(empty_tensors(most - 1, tensor(name(0)))), "occurs twice");
  refuses("a name at both ends, once escaped", file_of(empty_tensors(most - 1, tensor("\\u006e" + name(0).substr(1)))),
          "occurs twice");
  refuses("bytes after the last tensor", file_of(empty_tensors(most - 1, tensor("x")), 5),
          "5 bytes after its last tensor");
  refuses("a hole", file_of(empty_tensors(most - 1, tensor("x", "[1,2]", "[1]")), 2), "has unused bytes before it");
  refuses("an overlap",
          file_of(empty_tensors(most - 2, tensor("x", "[0,2]", "[2]") + "," + tensor("y", "[1,3]", "[2]")), 3),
          "overlaps");
}

TEST_CASE("safetensors memory: names and offsets in orders that are hard to sort") {
  auto const backwards = [](std::string const& filler, std::string const& last) {
    return members(most - 1, last + "}", [&](auto i) { return tensor(name(most - i, filler)); });
  };
  refuses("names backwards", file_of(backwards("n", tensor(name(most)))), "occurs twice");
  refuses("escaped names backwards", file_of(backwards("\\u006e", tensor(name(most, "\\u006e")))), "occurs twice");
  auto const shuffled = [](std::size_t i) { return i * 48'271 % most; }; // odd: every number once
  refuses(
      "names shuffled",
      file_of(members(most - 1, tensor(name(shuffled(1))) + "}", [&](auto i) { return tensor(name(shuffled(i))); })),
      "occurs twice");
  auto const byte = [&](std::size_t i, std::size_t at) {
    return tensor(name(i), "[" + std::to_string(at) + "," + std::to_string(at + 1) + "]", "[1]");
  };
  refuses("offsets shuffled",
          file_of(members(most - 1, byte(most, 77) + "}", [&](auto i) { return byte(i, shuffled(i)); }), most),
          "overlaps");
  refuses("offsets backwards",
          file_of(members(most - 1, tensor(name(most), "[0,2]", "[2]") + "}",
                          [&](auto i) { return byte(i, most - 1 - i); }),
                  most),
          "overlaps");
}

TEST_CASE("safetensors memory: few things, each as large as the file") {
  std::string const spaces(large, ' '), letters(large, 'n'), halves(large / 2, 'n');
  std::string extents = "[1";
  while (extents.size() < large) extents += ",1";
  refuses("a long name", file_of("{" + tensor(letters, "[0,0]", "[1]") + "}"), "nnn...' in 'hostile'");
  refuses("a long name twice", file_of("{" + tensor(halves) + "," + tensor(halves) + "}"), "nnn...' occurs twice");
  refuses("a long dtype", file_of("{" + tensor("x", "[0,0]", "[0]", letters) + "}"), "the unsupported dtype 'nnn");
  refuses("a long member", file_of("{\"x\":{\"" + letters + "\":0}}"), "members other than");
  refuses("a long number", file_of("{" + tensor("x", "[0,0]", "[" + std::string(large, '1') + "]") + "}"),
          "where a 64-bit integer is needed");
  refuses("a shape of many ones", file_of("{" + tensor("x", "[0,0]", extents + "]") + "}"), "need 1");
  refuses("a shape of many ones and a two", file_of("{" + tensor("x", "[0,1]", extents + ",2]") + "}", 1), "need 2");
  refuses("offsets far apart", file_of("{" + tensor("x", "[1," + spaces + "2]", "[1]") + "}", 2),
          "has unused bytes before it");
  refuses("many offsets", file_of("{" + tensor("x", extents + "]") + "}", 1), "an array of two offsets");
  refuses("white space", file_of("{" + spaces + "]}"), "a member needs a name");
  refuses("nothing but white space", file_of("{}" + spaces, 1), "1 byte after its last tensor");
  refuses("open arrays", file_of("{\"x\":" + std::string(large, '[')), "an object is needed");
  refuses("arrays in a shape", file_of("{" + tensor("x", "[0,0]", std::string(large, '['))), "a number is needed");
  refuses("one value of metadata", file_of("{\"__metadata__\":{\"a\":\"" + letters + "\",\"a\":\"\"}}"),
          "'a' occurs twice");
  refuses("two keys of metadata", file_of("{\"__metadata__\":{\"" + halves + "\":\"\",\"" + halves + "\":\"\"}}"),
          "occurs twice");
}
