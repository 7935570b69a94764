#pragma once

#include "constrain/data/random.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/data/memory_check.hpp"
#include "constrain/device/random.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// Draw number `index` of a random stream, uniform in [0, `bound`); `bound` must be at least 1. `purpose` separates
/// streams with the same seed.
CONSTRAIN_INLINE std::int32_t uniform_draw(std::uint64_t seed, std::uint32_t purpose, std::int64_t index,
                                           std::int32_t bound) {
  auto const block = static_cast<std::uint64_t>(index) / 4;
  philox_key const key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto const draw =
      philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, purpose}}, key);
  return static_cast<std::int32_t>(std::uint64_t{draw.word[index % 4]} * static_cast<std::uint32_t>(bound) >> 32);
}

/// The arrays of random examples; `types` and `lengths` are empty unless the options ask for them.
struct random_arrays {
  std::vector<std::int32_t> tokens{}, types{}, lengths{}, labels{};
};

/// Throws `error` for an option out of range, or if the examples exceed the physical memory.
[[gnu::cold]] CONSTRAIN_INLINE void check_random_examples(random_examples_options const& o) {
  constexpr char const* owner = "random_examples_options";
  check_count(owner, ".count", o.count, 1), check_count(owner, ".length", o.length, 1);
  check_count(owner, ".first_token", o.first_token, 0), check_count(owner, ".classes", o.classes, 1);
  if (o.length > std::numeric_limits<std::int32_t>::max())
    constrain::detail::refuse_number(owner, ".length", concat({o.length}), "at most 2147483647");
  if (o.vocabulary <= o.first_token)
    throw error({owner, ": .vocabulary is ", o.vocabulary, ", but .first_token is ", o.first_token,
                 "; give a vocabulary above the first token"});
  auto const example_values = o.length * (o.types ? 2 : 1) + (o.lengths ? 2 : 1);
  check_memory("the data", o.count, example_values * std::int64_t{sizeof(std::int32_t)}, "example");
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE corpus random_tokens(std::int64_t count, std::int32_t vocabulary, std::uint64_t seed) {
  if (count < 1 || vocabulary < 1 || vocabulary > 65536)
    throw error({counted(count, "random token"), " of a vocabulary of ", vocabulary,
                 " cannot be drawn; give at least one token, and a vocabulary from 1 to 65536"});
  detail::check_memory("the corpus", count, 2);
  constexpr std::uint32_t purpose = 0x746f6b65; // "toke": keeps these draws distinct from other draws with this seed
  auto const bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count) * 2);
  for (std::int64_t i = 0; i < count; ++i) {
    auto const token = static_cast<std::uint32_t>(detail::uniform_draw(seed, purpose, i, vocabulary));
    (*bytes)[static_cast<std::size_t>(2 * i)] = static_cast<std::byte>(token & 255);
    (*bytes)[static_cast<std::size_t>(2 * i + 1)] = static_cast<std::byte>(token >> 8);
  }
  return corpus::from_storage(bytes, {std::as_const(*bytes).data(), bytes->size()}, token_width::uint16);
}

[[gnu::cold]] CONSTRAIN_INLINE examples random_examples(random_examples_options const& o) {
  detail::check_random_examples(o);
  auto const arrays = std::make_shared<detail::random_arrays>();
  auto const count = static_cast<std::size_t>(o.count), tokens = count * static_cast<std::size_t>(o.length);
  constexpr std::uint32_t token_purpose = 0x6578616d, label_purpose = 0x636c6173; // "exam", "clas"
  arrays->tokens.resize(tokens), arrays->labels.resize(count);
  for (std::size_t i = 0; i < tokens; ++i)
    arrays->tokens[i] = o.first_token + detail::uniform_draw(o.seed, token_purpose, static_cast<std::int64_t>(i),
                                                             o.vocabulary - o.first_token);
  for (std::size_t i = 0; i < count; ++i)
    arrays->labels[i] = detail::uniform_draw(o.seed, label_purpose, static_cast<std::int64_t>(i), o.classes);
  if (o.types) arrays->types.resize(tokens);
  if (o.lengths) arrays->lengths.resize(count, static_cast<std::int32_t>(o.length));
  fixed_vector<array_view, 3> inputs;
  inputs.push_back(arrays->tokens);
  if (o.types) inputs.push_back(arrays->types);
  if (o.lengths) inputs.push_back(arrays->lengths);
  return examples::from_storage(arrays, array_list(inputs.begin(), static_cast<std::size_t>(inputs.size())),
                                arrays->labels);
}

} // namespace constrain::data
