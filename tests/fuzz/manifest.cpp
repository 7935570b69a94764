#include "fuzz.hpp"

#include "constrain/io/manifest.hpp"

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  auto const found = io::manifest::parse(text_of(bytes), "manifest.json");
  for (auto const& file : found.files) hold(io::valid_file_name(file.name));
  hold(found.text() == text_of(bytes)); // nothing else is accepted
  hold(!io::manifest::is_foreign(text_of(bytes)));
}
