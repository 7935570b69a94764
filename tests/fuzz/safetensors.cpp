#include "fuzz.hpp"

#include "constrain/io/safetensors.hpp"

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  auto const file = io::parse_safetensors(bytes, "the file");
  std::size_t total = 0;
  for (auto const& t : file.tensors) {
    hold(t.bytes.empty() ||
         (t.bytes.data() >= bytes.data() + 8 && t.bytes.data() + t.bytes.size() <= bytes.data() + bytes.size()));
    hold(io::tensor_bytes(t.dtype, t.shape) == t.bytes.size());
    hold(file.find(t.name) == &t);
    total += t.bytes.size();
  }
  hold(total <= bytes.size());
}
