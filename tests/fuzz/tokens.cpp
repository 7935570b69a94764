#include "fuzz.hpp"

#include "constrain/data/tokens.hpp"

#include <memory>
#include <vector>

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  for (int const bits : {0, 16, 32}) try {
      auto const size = static_cast<std::int64_t>(bytes.size());
      auto const [begin, width] = data::detail::find_tokens(bytes, size, "tokens.bin", {.bits = bits});
      hold(bits == 0 || 8 * static_cast<int>(width) == bits);
      auto const tokens = bytes.subspan(static_cast<std::size_t>(begin));
      auto const corpus = data::corpus::from_storage(nullptr, tokens, width);
      hold(corpus.size() > 0 && corpus.size() == (size - begin) / static_cast<int>(width));
      std::vector<std::int32_t> all(static_cast<std::size_t>(corpus.size()));
      corpus.copy(0, all);
      for (auto token : all) hold(token >= 0 && token < corpus.vocabulary());
    } catch (error const& e) { hold(std::string_view(e.what()).find('\n') == std::string_view::npos); }
}
