#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/slice/slice.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Maps the elements of a slice to elements of the full tensor. One of the two tensors, `rows`, may be strided: its
/// rows begin `row_stride` elements apart.
struct slice_map {
  std::int64_t inner;       // elements per index of the sliced dimension
  std::int64_t extent;      // extent of the slice in this dimension
  std::int64_t full_extent; // extent of the full tensor in this dimension
  std::int64_t begin;       // index of the slice's first element in this dimension
  std::int64_t features;    // elements of a row of `rows`
  std::int64_t row_stride;  // elements from one row of `rows` to the next

  /// `slice_shape`: shape of the slice. `dimension`: index of the sliced dimension. `extent_of_full`: extent of the
  /// full tensor in this dimension. `slice_begin`: index of the slice's first element in this dimension. `rows`: the
  /// full tensor or the slice, whichever may be strided.
  template <class T>
  slice_map(shape const& slice_shape, int dimension, std::int64_t extent_of_full, std::int64_t slice_begin,
            tensor<T> const& rows)
      : inner(1), extent(slice_shape.extent[dimension]), full_extent(extent_of_full), begin(slice_begin),
        features(rows.features()), row_stride(rows.row_stride()) {
    for (int d = dimension + 1; d < slice_shape.rank; ++d) inner *= slice_shape.extent[d];
  }

  /// Index, in the full tensor, of element i of the slice.
  CT_HOST_DEVICE std::int64_t in_full(std::int64_t i) const {
    auto const block = inner * extent;
    return (i / block * full_extent + begin) * inner + i % block;
  }
  /// Offset in memory, in elements, of element i of `rows`.
  CT_HOST_DEVICE std::int64_t in_rows(std::int64_t i) const { return i / features * row_stride + i % features; }
};

/// Loop body of the kernel: y[i] = element i of the slice.
template <class stored> struct slice_elements {
  stored const* x;
  stored* y;
  slice_map map;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[map.in_rows(map.in_full(i))]; }
};

template <class device> struct kernel<op::slice, device> {
  template <class stored> static void run(call_of<op::slice> const& c, tensor<stored const> x, tensor<stored> y) {
    auto const d = c.options.dimension;
    // The index of the innermost loop: it counts fastest in `c.iteration`.
    auto const iteration = static_cast<std::int64_t>(c.iteration) % c.options.iterations;
    auto const begin = c.options.begin + iteration * c.options.extent;
    for_elements(device{}, c, y.count,
                 slice_elements<stored>{x.data, y.data, {y.shape(), d, x.shape().extent[d], begin, x}});
  }
};

/// Loop body of the kernel for a first write: dx[i] is an element of the slice dy, or 0 outside of the slice.
template <class stored> struct pad_elements {
  stored const* dy;
  stored* dx;
  slice_map map;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const outer = i / (map.inner * map.full_extent);
    auto const offset = i - (outer * map.full_extent + map.begin) * map.inner;
    bool const is_in_slice = offset >= 0 && offset < map.inner * map.extent;
    dx[i] = is_in_slice ? dy[map.in_rows(outer * map.inner * map.extent + offset)] : stored(0);
  }
};

/// Loop body of the kernel for later writes: adds element i of the slice dy to dx.
template <class stored> struct add_slice_elements {
  stored const* dy;
  stored* dx;
  slice_map map;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const index = map.in_full(i);
    dx[index] = dx[index] + dy[map.in_rows(i)];
  }
};

template <class device> struct kernel<op::pad, device> {
  template <class stored> static void run(call_of<op::pad> const& c, tensor<stored const> dy, tensor<stored> dx) {
    slice_map const map(dy.shape(), c.options.dimension, c.options.extent, c.options.begin, dy);
    if (c.add_to(0)) for_elements(device{}, c, dy.count, add_slice_elements<stored>{dy.data, dx.data, map});
    else for_elements(device{}, c, dx.count, pad_elements<stored>{dy.data, dx.data, map});
  }
};

} // namespace constrain
