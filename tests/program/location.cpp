#include <constrain/program/builder.hpp>
#include <constrain/program/location.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr int full = 0, columns = 1, last = 2, tokens = 3, over = 4, all = 5;

// A value [2, 6, 10]; its columns 3 to 8; of those the last 2; rows 2 to 4 of [1, 6, 10]; a value overwritten by the
// first; a view of everything.
constexpr program made = [] {
  program p;
  auto const add = [&](shape s, view v = {}) {
    value_info info;
    info.shape = s;
    info.view = v;
    return p.add_value(info);
  };
  add(shape(2, 6, 10));
  add(shape(2, 6, 5), {{full}, 2, 3});
  add(shape(2, 6, 2), {{columns}, 2, 3});
  add(shape(2, 2, 10), {{full}, 1, 2});
  add(shape(60, 2));
  p.values[over].overwritten_by = {full};
  add(shape(2, 6, 10), {{over}, 0, 0});
  return p;
}();
constexpr bool lies(int v, int root, std::int64_t begin, std::int64_t row_stride) {
  auto const l = locate(made, {v});
  return l.root.value == root && l.begin == begin && l.row_stride == row_stride;
}
static_assert(lies(full, full, 0, 0) && lies(over, full, 0, 0));
static_assert(lies(columns, full, 3, 10) && lies(last, full, 6, 10));
static_assert(lies(tokens, full, 20, 0));
static_assert(root_of(made, {last}) == ref{full});

// Slices of slices: rows of columns keep the stride of the widest rows.
constexpr program nested = [] {
  program p;
  value_info info;
  info.shape = shape(8, 10);
  p.add_value(info);
  info.shape = shape(8, 4), info.view = {{0}, 1, 5};
  p.add_value(info);
  info.shape = shape(3, 4), info.view = {{1}, 0, 2};
  p.add_value(info);
  info.shape = shape(3, 10), info.view = {{0}, 0, 5};
  p.add_value(info);
  info.shape = shape(8, 5), info.view = {{0}, 1, 0};
  p.add_value(info);
  info.shape = shape(2, 10), info.view = {{0}, 0, 0};
  p.add_value(info);
  return p;
}();
static_assert(locate(nested, {2}).begin == 25 && locate(nested, {2}).row_stride == 10);
// Rows 2 to 4, columns 5 to 8: not columns 0 to 4, nor rows 5 to 7, nor rows 0 and 1, but themselves and their parents.
static_assert(!overlap(nested, {2}, {4}) && !overlap(nested, {4}, {2}));
static_assert(!overlap(nested, {2}, {3}) && !overlap(nested, {3}, {2}));
static_assert(!overlap(nested, {2}, {5}) && !overlap(nested, {5}, {2}));
static_assert(overlap(nested, {2}, {1}) && overlap(nested, {1}, {2}) && overlap(nested, {2}, {0}));
static_assert(overlap(nested, {1}, {3}) && overlap(nested, {4}, {5}) && overlap(nested, {2}, {2}));
static_assert(!overlap(nested, {3}, {5}));
static_assert(overlap(made, {columns}, {full}) && overlap(made, {over}, {last}));

static_assert(inner_elements(shape(2, 6, 10), 0) == 60 && inner_elements(shape(2, 6, 10), 2) == 1);

} // namespace

TEST_CASE("an element of a view lies where the sliced value has it") {
  // Element by element against the definition of a slice.
  for (int v : {1, 2, 3, 4, 5}) {
    auto const& s = nested.values[v].shape;
    auto const l = locate(nested, {v});
    auto const stride = l.row_stride == 0 ? s.features() : l.row_stride;
    for (std::int64_t row = 0; row < s.extent[0]; ++row)
      for (std::int64_t column = 0; column < s.extent[1]; ++column) {
        std::int64_t index[] = {row, column};
        for (int w = v; nested.values[w].view; w = nested.values[w].view.of.value)
          index[nested.values[w].view.dimension] += nested.values[w].view.begin;
        CHECK(l.begin + row * stride + column == index[0] * 10 + index[1]);
      }
  }
}
