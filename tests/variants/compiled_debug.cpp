#include <constrain/data/corpus.hpp>

static_assert(CONSTRAIN_DEFINITIONS == 1); // std::vector has a different layout in the companion

/// Tokens at the end of both parts of a corpus, with libstdc++'s checks of iterators.
std::int32_t last_tokens_compiled_debug() {
  auto const parts = constrain::data::corpus::from_bytes("abcdefgh").split(0.5, 1, 1);
  return parts.train.token(3) + parts.validation.token(3);
}
