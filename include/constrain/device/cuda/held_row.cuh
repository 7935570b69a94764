#pragma once

#include "constrain/device/cuda/packs.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A row of a matrix in the registers of a warp, so that the row is read once, and with all loads in flight at the same
/// time. Lane i holds the packs i, i + 32, ... of n elements. The row has at most 32 n `packs` elements, a multiple of
/// n.
template <int n, int packs, class stored> struct held_row {
  stored_pack<n, stored> pack[packs];

  /// The first column of this lane's pack k, which may be beyond the row.
  __device__ static int column(int k) { return (k * 32 + static_cast<int>(threadIdx.x % 32)) * n; }
  /// Loads a row of `width` elements, aligned as for `load_stored`. `width`: a multiple of n, at most 32 n `packs`.
  __device__ void load(stored const* row, int width) {
    CT_UNROLL
    for (int k = 0; k < packs; ++k)
      if (column(k) < width) pack[k] = load_stored<n>(row + column(k));
  }
  /// Calls f(column, values) for this lane's packs of a row that `load` has loaded, with the same `width`. `column`:
  /// the column of the pack's first element. `values`: an array of the pack's n elements as `arithmetic<stored>`.
  template <class function> __device__ void for_each_pack(int width, function const& f) const {
    arithmetic<stored> values[n];
    CT_UNROLL
    for (int k = 0; k < packs; ++k)
      if (column(k) < width) pack[k].unpack(values), f(column(k), values);
  }
};

/// A row that stays in memory. `load` does not read it; `for_each_pack` does.
template <int n, class stored> struct held_row<n, 0, stored> {
  stored const* row;

  __device__ void load(stored const* from, int) { row = from; }
  template <class function> __device__ void for_each_pack(int width, function const& f) const {
    arithmetic<stored> values[n];
    for (int i = static_cast<int>(threadIdx.x % 32) * n; i < width; i += 32 * n)
      load_pack(row + i, values), f(i, values);
  }
};

/// Calls f(std::integral_constant<int, packs>{}) with the `packs` of a `held_row` for rows of `width` elements in packs
/// of n. `elements_per_lane`: numbers of elements per lane, ascending and multiples of n; the first that is large
/// enough gives `packs`. `packs` is 0, and the row stays in memory, if no number is large enough, if n is 1, or for
/// fp64, because registers hold few fp64 elements.
template <class stored, int n, int... elements_per_lane, class function>
void with_held_packs(std::int64_t width, function const& f) {
  bool found = false;
  if constexpr (n > 1 && sizeof(stored) < 8)
    ((found || width > 32 * elements_per_lane
          ? void()
          : (found = true, f(std::integral_constant<int, elements_per_lane / n>{}))),
     ...);
  if (!found) f(std::integral_constant<int, 0>{});
}

} // namespace constrain
