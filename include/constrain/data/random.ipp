#pragma once

#include "constrain/data/random.hpp"

#include "constrain/base/error.hpp"
#include "constrain/data/room.hpp"
#include "constrain/device/random.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE corpus random_tokens(std::int64_t count, std::int32_t vocabulary, std::uint64_t seed) {
  if (count < 1 || vocabulary < 1 || vocabulary > 65536)
    throw error({counted(count, "random token"), " of a vocabulary of ", vocabulary,
                 " cannot be drawn; give at least one token, and a vocabulary from 1 to 65536"});
  detail::check_room("the corpus", count, 2);
  constexpr std::uint32_t purpose = 0x746f6b65; // "toke": keeps these draws distinct from other draws with this seed
  philox_key const key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto const bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count) * 2);
  for (std::int64_t i = 0; i < count; ++i) {
    auto const at = static_cast<std::uint64_t>(i) / 4;
    auto const draw = philox({{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, purpose}}, key);
    auto const token =
        static_cast<std::uint32_t>(std::uint64_t{draw.word[i % 4]} * static_cast<std::uint32_t>(vocabulary) >> 32);
    (*bytes)[static_cast<std::size_t>(2 * i)] = static_cast<std::byte>(token & 255);
    (*bytes)[static_cast<std::size_t>(2 * i + 1)] = static_cast<std::byte>(token >> 8);
  }
  return corpus::from_storage(bytes, {std::as_const(*bytes).data(), bytes->size()}, token_width::uint16);
}

} // namespace constrain::data
