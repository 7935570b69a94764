#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Where the elements of one instance of a value are stored: in the buffer of the value `root`, which is not a view and
/// is not overwritten in place by another value. A row is a vector along the innermost dimension.
struct location {
  static constexpr int maximum_views = 12; // maximum length of a chain of views

  ref root;                          // the value that owns the buffer
  std::int64_t begin = 0;            // elements of `root` before the value's first element
  std::int64_t row_stride = 0;       // elements of `root` from one row to the next; 0: the elements are contiguous
  int axis = -1;                     // axis of the loop whose iterations move the location; -1: none
  std::int64_t iteration_stride = 0; // elements of `root` from one iteration of that loop to the next
};

/// The number of consecutive elements that share an index of dimension `dimension`, in a tensor of shape `s`.
constexpr std::int64_t inner_elements(shape const& s, int dimension) {
  std::int64_t product = 1;
  for (int d = dimension + 1; d < s.rank; ++d) product *= s.extent[d];
  return product;
}

/// The value whose buffer holds `r`.
constexpr ref root_of(program const& p, ref r) {
  for (;;) {
    auto const& info = p.values[r.value];
    ref const next = info.view ? info.view.of : info.overwritten_by;
    if (!next) return r;
    r = next;
  }
}

/// The location of `r`. The chain of views from `r` to its root must not be longer than `location::maximum_views`.
constexpr location locate(program const& p, ref r) {
  location out{root_of(p, r)};
  if (out.root == r) return out;
  // Collects the views from the value to the root, and applies them in reverse, because only the root is certain to
  // have contiguous rows.
  fixed_vector<ref, location::maximum_views> views;
  while (!(r == out.root)) {
    auto const& info = p.values[r.value];
    if (info.view) views.push_back(r);
    r = info.view ? info.view.of : info.overwritten_by;
  }
  for (int k = views.size() - 1; k >= 0; --k) {
    auto const& info = p.values[views[k].value];
    auto const& viewed = p.values[info.view.of.value].shape;
    auto const width = out.row_stride == 0 ? viewed.features() : out.row_stride;
    auto const inner = inner_elements(viewed, info.view.dimension);
    auto const in_root = [&](std::int64_t elements) {
      return elements / viewed.features() * width + elements % viewed.features();
    };
    out.begin += in_root(info.view.begin * inner);
    if (info.view.axis >= 0)
      out.axis = info.view.axis, out.iteration_stride = in_root(info.view.iteration_stride * inner);
    bool const is_narrower = info.shape.features() != viewed.features() && info.shape.elements() != viewed.elements();
    if (is_narrower && info.shape.rows() > 1) out.row_stride = width;
  }
  return out;
}

/// Whether `r` and `s` may share an element of an instance of a common root, possibly in different iterations. Never
/// false for values with a common element. May be true for values without a common element if iterations move a value
/// by more than its length or by a distance other than full rows, if a value begins inside a row and continues in the
/// next row, or if the row strides differ.
constexpr bool may_overlap(program const& p, ref r, ref s) {
  auto const a = locate(p, r), b = locate(p, s);
  if (!(a.root == b.root)) return false;
  auto const &x = p.values[r.value].shape, &y = p.values[s.value].shape;
  auto const movement = [&](location const& l) {
    return l.axis < 0 ? 0 : (p.axes[l.axis].extent - 1) * l.iteration_stride;
  };
  // In the root, the index after the last element of the value, over all iterations.
  auto const end = [&](location const& l, shape const& extents) {
    auto const length =
        l.row_stride == 0 ? extents.elements() : (extents.rows() - 1) * l.row_stride + extents.features();
    return l.begin + length + movement(l);
  };
  if (a.begin >= end(b, y) || b.begin >= end(a, x)) return false;
  // Even if these ranges of elements overlap, the values may lie in different columns.
  if (a.row_stride != 0 && b.row_stride != 0 && a.row_stride != b.row_stride) return true;
  auto const row_stride = a.row_stride != 0 ? a.row_stride : b.row_stride;
  auto const width = row_stride != 0 ? row_stride : p.values[a.root.value].shape.features();
  auto const end_column = [&](location const& l, shape const& extents) {
    auto const length = l.row_stride == 0 ? extents.elements() : extents.features();
    return l.begin % width + length + (l.iteration_stride % width == 0 ? 0 : movement(l));
  };
  auto const a_end = end_column(a, x), b_end = end_column(b, y);
  return a_end > width || b_end > width || (a.begin % width < b_end && b.begin % width < a_end);
}

} // namespace constrain
