#include "fuzz.hpp"

#include "constrain/io/manifest.hpp"
#include "constrain/io/safetensors_index.hpp"

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  auto const index = io::safetensors_index::parse(text_of(bytes), "model.safetensors.index.json");
  hold(!index.tensors.empty());
  for (auto const& file : index.files) hold(io::valid_file_name(file));
  for (auto const& t : index.tensors) hold(index.find(t.name) == &t && t.file < index.files.size());
}
