#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/slice/slice.hpp"

#include <numeric>

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
  /// full tensor or the slice, whichever is strided; if both are contiguous, either of them.
  template <class T>
  slice_map(shape const& slice_shape, int dimension, std::int64_t extent_of_full, std::int64_t slice_begin,
            tensor<T> const& rows)
      : inner(1), extent(slice_shape.extent[dimension]), full_extent(extent_of_full), begin(slice_begin),
        features(rows.features()), row_stride(rows.row_stride()) {
    for (int d = dimension + 1; d < slice_shape.rank; ++d) inner *= slice_shape.extent[d];
  }

  /// The slice, the rest of the full tensor and `rows` consist of contiguous runs of this many elements.
  std::int64_t run_length() const {
    auto const of_slice = inner == 1 ? std::gcd(std::gcd(extent, full_extent), begin) : inner;
    return std::gcd(std::gcd(features, row_stride), of_slice);
  }
  /// The map of packs of n elements; n must divide `run_length()`.
  slice_map of_packs(std::int64_t n) const {
    auto map = *this;
    if (inner > 1) map.inner /= n;
    else map.extent /= n, map.full_extent /= n, map.begin /= n;
    map.features /= n, map.row_stride /= n;
    return map;
  }
  /// Index, in the full tensor, of element i of the slice.
  CT_HOST_DEVICE std::int64_t in_full(std::int64_t i) const {
    auto const block = inner * extent;
    return (i / block * full_extent + begin) * inner + i % block;
  }
  /// Index, in the slice, of element i of the full tensor; -1 if the slice does not have it.
  CT_HOST_DEVICE std::int64_t in_slice(std::int64_t i) const {
    auto const outer = i / (inner * full_extent);
    auto const offset = i - (outer * full_extent + begin) * inner;
    return offset >= 0 && offset < inner * extent ? outer * inner * extent + offset : -1;
  }
  /// Offset in memory, in elements, of element i of `rows`.
  CT_HOST_DEVICE std::int64_t in_rows(std::int64_t i) const { return i / features * row_stride + i % features; }
};

namespace detail {

/// The copy of a slice out of the full tensor: element i of the slice is read at from(i) and written at to(i).
struct slice_copy {
  slice_map map;

  std::int64_t run_length() const { return map.run_length(); }
  slice_copy of_packs(std::int64_t n) const { return {map.of_packs(n)}; }
  CT_HOST_DEVICE std::int64_t from(std::int64_t i) const { return map.in_rows(map.in_full(i)); }
  CT_HOST_DEVICE std::int64_t to(std::int64_t i) const { return i; }
};

} // namespace detail

/// Loop body of `copy_mapped`.
template <class map, class stored> struct copy_mapped_elements {
  stored const* x;
  stored* y;
  map places;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[places.to(i)] = x[places.from(i)]; }
};

/// y[places.to(i)] = x[places.from(i)] for i in [0, count). `map` has the member functions of `detail::slice_copy`.
template <class device, class map, class stored>
void copy_mapped(device, call const& c, map const& places, std::int64_t count, stored* y, stored const* x) {
  for_elements(device{}, c, count, copy_mapped_elements<map, stored>{x, y, places});
}

/// Loop body of `copy_padded`.
template <class stored> struct copy_padded_elements {
  stored const* dy;
  stored* dx;
  slice_map map;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const from = map.in_slice(i);
    dx[i] = from < 0 ? stored(0) : dy[map.in_rows(from)];
  }
};

/// Writes dx, the full tensor: dx[i] = the element of dy, the slice, whose index in dx is i, or 0 if the slice does not
/// have it, for i in [0, count). `map` must be made with dy as its `rows` or, if dy is contiguous, with dy or dx.
template <class device, class stored>
void copy_padded(device, call const& c, slice_map const& map, std::int64_t count, stored* dx, stored const* dy) {
  for_elements(device{}, c, count, copy_padded_elements<stored>{dy, dx, map});
}

template <class device> struct kernel<op::slice, device> {
  template <class stored> static void run(call_of<op::slice> const& c, tensor<stored const> x, tensor<stored> y) {
    auto const d = c.options.dimension;
    // The iteration of the innermost loop, which changes fastest in `c.iteration`.
    auto const iteration = static_cast<std::int64_t>(c.iteration) % c.options.iterations;
    auto const begin = c.options.begin + iteration * c.options.extent;
    detail::slice_copy const places{{y.shape(), d, x.shape().extent[d], begin, x}};
    copy_mapped(device{}, c, places, y.count, y.data, x.data);
  }
};

/// Loop body of `add_slice`.
template <class stored> struct add_slice_elements {
  stored const* dy;
  stored* dx;
  slice_map map;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const index = map.in_full(i);
    dx[index] = dx[index] + dy[map.in_rows(i)];
  }
};

/// Adds element i of dy, the slice, to element map.in_full(i) of dx, the full tensor, for i in [0, count). `map`: as
/// for `copy_padded`.
template <class device, class stored>
void add_slice(device, call const& c, slice_map const& map, std::int64_t count, stored* dx, stored const* dy) {
  for_elements(device{}, c, count, add_slice_elements<stored>{dy, dx, map});
}

template <class device> struct kernel<op::pad, device> {
  template <class stored> static void run(call_of<op::pad> const& c, tensor<stored const> dy, tensor<stored> dx) {
    slice_map const map(dy.shape(), c.options.dimension, c.options.extent, c.options.begin, dy);
    if (c.add_to(0)) add_slice(device{}, c, map, dy.count, dx.data, dy.data);
    else copy_padded(device{}, c, map, dx.count, dx.data, dy.data);
  }
};

} // namespace constrain
