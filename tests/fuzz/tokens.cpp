#include "fuzz.hpp"

#include "constrain/data/tokens.hpp"

#include <memory>
#include <vector>

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  auto const begin = data::detail::find_tokens(bytes, static_cast<std::int64_t>(bytes.size()), "tokens.bin");
  auto const tokens = bytes.subspan(static_cast<std::size_t>(begin));
  auto const corpus = data::corpus::from_storage(nullptr, tokens, data::token_width::uint16);
  hold(corpus.size() > 0 && corpus.size() <= static_cast<std::int64_t>(bytes.size() / 2));
  std::vector<std::int32_t> all(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, all);
  for (auto token : all) hold(token >= 0 && token < corpus.vocabulary());
}
