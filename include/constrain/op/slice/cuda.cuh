#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/slice/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Loop body of `copy_mapped`: iteration i copies pack i. `places` maps packs, not elements.
template <int n, class map, class stored> struct copy_mapped_packs {
  stored const* x;
  stored* y;
  map places;

  __device__ void operator()(std::int64_t i) const {
    store_stored(load_stored<n>(x + n * places.from(i)), y + n * places.to(i));
  }
};

/// Loop body of `copy_padded`: iteration i writes pack i of the full tensor. `map` maps packs, not elements.
template <int n, class stored> struct copy_padded_packs {
  stored const* dy;
  stored* dx;
  slice_map map;

  __device__ void operator()(std::int64_t i) const {
    auto const from = map.in_slice(i);
    stored_pack<n, stored> pack{};
    if (from >= 0) pack = load_stored<n>(dy + n * map.in_rows(from));
    store_stored(pack, dx + n * i);
  }
};

/// Loop body of `add_slice`: iteration i adds pack i of the slice. `map` maps packs, not elements.
template <int n, class stored> struct add_slice_packs {
  stored const* dy;
  stored* dx;
  slice_map map;

  __device__ void operator()(std::int64_t i) const {
    auto* const to = dx + n * map.in_full(i);
    arithmetic<stored> sums[n], terms[n];
    load_pack(to, sums), load_pack(dy + n * map.in_rows(i), terms);
    CT_UNROLL
    for (int j = 0; j < n; ++j) sums[j] += terms[j];
    store_pack(sums, to);
  }
};

} // namespace detail

/// Like `copy_mapped` of op/slice/kernel.hpp. Each access is to 16 bytes if both tensors begin at multiples of 16 bytes
/// and `places.run_length()` is a multiple of the elements in 16 bytes; otherwise, each access is to one element.
template <class architecture, class map, class stored>
void copy_mapped(cuda<architecture> device, call const& c, map const& places, std::int64_t count, stored* y,
                 stored const* x) {
  auto const start = [&]<int n>(std::integral_constant<int, n>) {
    for_elements(device, c, count / n, detail::copy_mapped_packs<n, map, stored>{x, y, places.of_packs(n)});
  };
  with_packs(places.run_length(), start, x, y);
}
/// The same for `copy_padded`.
template <class architecture, class stored>
void copy_padded(cuda<architecture> device, call const& c, slice_map const& map, std::int64_t count, stored* dx,
                 stored const* dy) {
  auto const start = [&]<int n>(std::integral_constant<int, n>) {
    for_elements(device, c, count / n, detail::copy_padded_packs<n, stored>{dy, dx, map.of_packs(n)});
  };
  with_packs(map.run_length(), start, dy, dx);
}
/// The same for `add_slice`.
template <class architecture, class stored>
void add_slice(cuda<architecture> device, call const& c, slice_map const& map, std::int64_t count, stored* dx,
               stored const* dy) {
  auto const start = [&]<int n>(std::integral_constant<int, n>) {
    for_elements(device, c, count / n, detail::add_slice_packs<n, stored>{dy, dx, map.of_packs(n)});
  };
  with_packs(map.run_length(), start, dy, dx);
}

} // namespace constrain
