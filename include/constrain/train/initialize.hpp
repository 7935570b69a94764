#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/random.hpp"
#include "constrain/train/parameter_table.hpp"

#include <cstddef>

namespace constrain {

namespace detail {

template <class real> void initialize_as(parameter_info const& info, int index, std::uint64_t seed, real* data) {
  auto const count = info.elements();
  constexpr std::uint32_t purpose = 0x696e6974; // sets these draws apart from all others under the same seed
  philox_key const key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  parallel_chunks((count + 3) / 4, 1024, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t quad = begin; quad < end; ++quad) {
      double drawn[4]{};
      if (info.initial.deviation != 0) {
        auto const bits = philox({{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32),
                                   static_cast<std::uint32_t>(index), purpose}}, key);
        auto const one = normal(bits.word[0], bits.word[1]);
        auto const two = normal(bits.word[2], bits.word[3]);
        drawn[0] = one.first, drawn[1] = one.second, drawn[2] = two.first, drawn[3] = two.second;
      }
      for (std::int64_t k = 0; k < 4 && quad * 4 + k < count; ++k)
        data[quad * 4 + k] = static_cast<real>(info.initial.constant + info.initial.deviation * drawn[k]);
    }
  });
}

} // namespace detail

/// First weights of parameter number `index` and zeroed optimizer states; a function of the seed alone.
inline void initialize(parameter_info const& info, int index, std::uint64_t seed, std::byte* arena) {
  auto* const data = arena + info.offset;
  if (info.type == dtype::f64) detail::initialize_as(info, index, seed, reinterpret_cast<double*>(data));
  else detail::initialize_as(info, index, seed, reinterpret_cast<float*>(data));
  auto const bytes = info.elements() * size_of(info.type);
  for (auto state : info.state_offset)
    if (state >= 0) std::fill_n(arena + state, bytes, std::byte{0});
}

} // namespace constrain
