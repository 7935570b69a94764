// Five readers in one libFuzzer program: PROGRAM READER [options of libFuzzer]. They share most of their headers,
// so that one program compiles in 6 s of processor time instead of 12 s for five.

#include "fuzz.hpp"

#include <cstdio>
#include <string_view>
#include <utility>

// Each file defines `try_reader`; here, each needs a name of its own.
namespace constrain::test {
void try_labelled_json_lines(std::span<std::byte const> bytes);
void try_safetensors_index(std::span<std::byte const> bytes);
void try_positions(std::span<std::byte const> bytes);
void try_packing(std::span<std::byte const> bytes);
void try_configuration(std::span<std::byte const> bytes);
} // namespace constrain::test

#define try_reader try_labelled_json_lines
#include "labelled_json_lines.cpp"
#undef try_reader
#define try_reader try_safetensors_index
#include "safetensors_index.cpp"
#undef try_reader
#define try_reader try_positions
#include "positions.cpp"
#undef try_reader
#define try_reader try_packing
#include "packing.cpp"
#undef try_reader
#define try_reader try_configuration
#include "configuration.cpp"
#undef try_reader

namespace {
void (*chosen)(std::span<std::byte const> bytes) = nullptr;
} // namespace

void constrain::test::try_reader(std::span<std::byte const> bytes) { chosen(bytes); }

/// Takes READER out of the arguments, before libFuzzer reads them.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace constrain::test;
  std::string_view const name = *count > 1 ? (*arguments)[1] : "";
  if (name == "labelled_json_lines") chosen = try_labelled_json_lines;
  if (name == "safetensors_index") chosen = try_safetensors_index;
  if (name == "positions") chosen = try_positions;
  if (name == "packing") chosen = try_packing;
  if (name == "configuration") chosen = try_configuration;
  if (chosen == nullptr) {
    std::puts("the first argument must be the name of a reader");
    std::exit(2);
  }
  std::swap((*arguments)[0], (*arguments)[1]);
  ++*arguments;
  --*count;
  return 0;
}
