#pragma once

#include "constrain/train/initialize.hpp"

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/random.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Writes the initial values of a tensor's elements [begin_element, end_element), counted through all iterations, to
/// `data`, which has elements of type `info.type`. `index`: as in `initialize`.
CONSTRAIN_INLINE void initialize_elements(tensor_info const& info, int index, std::uint64_t seed,
                                          std::int64_t begin_element, std::int64_t end_element, std::byte* data) {
  constexpr std::uint32_t purpose = 0x696e6974; // "init": keeps these draws distinct from other draws with this seed
  philox_key const key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto const first_quad = begin_element / 4;
  parallel_chunks((end_element + 3) / 4 - first_quad, 1024, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t quad = first_quad + begin; quad < first_quad + end; ++quad) {
      double draws[4]{};
      if (info.initial.stddev != 0) {
        auto const bits = philox({{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32),
                                   static_cast<std::uint32_t>(index), purpose}},
                                 key);
        auto const first_pair = normal(bits.word[0], bits.word[1]);
        auto const second_pair = normal(bits.word[2], bits.word[3]);
        draws[0] = first_pair.first, draws[1] = first_pair.second, draws[2] = second_pair.first,
        draws[3] = second_pair.second;
      }
      visit_real(info.type, [&]<class stored>(stored) {
        auto* const elements = reinterpret_cast<stored*>(data);
        for (std::int64_t i = quad * 4; i < quad * 4 + 4; ++i)
          if (begin_element <= i && i < end_element)
            elements[i - begin_element] = static_cast<stored>(
                static_cast<arithmetic<stored>>(info.initial.constant + info.initial.stddev * draws[i % 4]));
      });
    }
  });
}

/// Writes to `data`, iteration by iteration, the initial values of the elements that this rank stores. `rank`: as in
/// `initialize`.
[[gnu::cold]] CONSTRAIN_INLINE void initialize_runs(tensor_info const& info, int index, std::uint64_t seed, int rank,
                                                    std::byte* data) {
  auto const full = info.shape.elements(), stored = info.map().stored();
  for (std::int64_t iteration = 0; iteration < info.iterations; ++iteration)
    info.for_each_run(rank, [&](stored_run const& run) {
      auto const begin = iteration * full + run.begin;
      initialize_elements(info, index, seed, begin, begin + run.length,
                          data + (iteration * stored + run.stored_begin) * size_of(info.type));
    });
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE void initialize(tensor_info const& info, int index, std::uint64_t seed, arena& memory,
                                               int rank) {
  auto const bytes = info.stored() * size_of(info.type);
  bool const is_zero = info.initial.constant == 0 && info.initial.stddev == 0;
  if (is_zero) return memory.fill(info.offset, bytes, 0);
  if (info.type == dtype::u8) return memory.fill(info.offset, bytes, static_cast<unsigned char>(info.initial.constant));
  if (info.type == dtype::i32) {
    std::vector<std::int32_t> const values(static_cast<std::size_t>(info.stored()),
                                           static_cast<std::int32_t>(info.initial.constant));
    return memory.write(info.offset, values.data(), bytes);
  }
  memory.produce(info.offset, bytes, [&](std::byte* data) {
    // If a rank's elements do not fill its storage, the rest must be zero.
    if (info.shards > 1 || info.unused > 0) std::memset(data, 0, static_cast<std::size_t>(bytes));
    detail::initialize_runs(info, index, seed, rank, data);
  });
}

[[gnu::cold]] CONSTRAIN_INLINE void reset_states_with_parameter(parameter_list const& list, int parameter,
                                                                arena& memory, int rank) {
  std::vector<std::byte> copy;
  for (int i = 0; i < list.states_size; ++i) {
    auto const& state = list.states[i];
    if (state.parameter != parameter || !state.resets_with_parameter) continue;
    if (!state.is_average) {
      initialize(state, parameter, 0, memory, rank);
      continue;
    }
    auto const bytes = state.stored() * size_of(state.type);
    copy.resize(static_cast<std::size_t>(bytes));
    memory.read(list.parameters[parameter].offset, copy.data(), bytes);
    memory.write(state.offset, copy.data(), bytes);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void initialize(parameter_list const& list, std::uint64_t seed, arena& memory,
                                               int rank) {
  for (int i = 0; i < list.size; ++i) initialize(list.parameters[i], i, seed, memory, rank);
  for (int i = 0; i < list.states_size; ++i) initialize(list.states[i], list.states[i].parameter, seed, memory, rank);
  for (int i = 0; i < list.settings_size; ++i) initialize(list.settings[i], i, seed, memory);
  for (int i = 0; i < list.size; ++i) reset_states_with_parameter(list, i, memory, rank);
}

} // namespace constrain
