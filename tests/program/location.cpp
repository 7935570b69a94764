#include <constrain/program/builder.hpp>
#include <constrain/program/location.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <set>

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
static_assert(!may_overlap(nested, {2}, {4}) && !may_overlap(nested, {4}, {2}));
static_assert(!may_overlap(nested, {2}, {3}) && !may_overlap(nested, {3}, {2}));
static_assert(!may_overlap(nested, {2}, {5}) && !may_overlap(nested, {5}, {2}));
static_assert(may_overlap(nested, {2}, {1}) && may_overlap(nested, {1}, {2}) && may_overlap(nested, {2}, {0}));
static_assert(may_overlap(nested, {1}, {3}) && may_overlap(nested, {4}, {5}) && may_overlap(nested, {2}, {2}));
static_assert(!may_overlap(nested, {3}, {5}));
static_assert(may_overlap(made, {columns}, {full}) && may_overlap(made, {over}, {last}));

// Views of [8, 10], some of which move with a loop of 4 iterations.
constexpr program moving = [] {
  program p;
  p.axes.push_back({});
  p.axes.back().extent = 4;
  value_info info;
  auto const add = [&](shape s, view v) {
    info.shape = s, info.view = v;
    p.add_value(info);
  };
  add(shape(8, 10), {});
  add(shape(8, 4), {{0}, 1, 5});        // 1: columns 5 to 8
  add(shape(2, 4), {{1}, 0, 0, 0, 2});  // 2: two rows of 1, moving
  add(shape(2, 4), {{1}, 0, 4});        // 3: rows 4 and 5 of 1
  add(shape(2, 10), {{0}, 0, 4});       // 4: rows 4 and 5
  add(shape(8, 5), {{0}, 1, 0});        // 5: columns 0 to 4
  add(shape(1, 10), {{0}, 0, 0, 0, 1}); // 6: a row, moving through rows 0 to 3
  add(shape(1, 5), {{6}, 1, 0});        // 7: its columns 0 to 4
  add(shape(1, 5), {{6}, 1, 5});        // 8: its columns 5 to 9
  add(shape(8, 2), {{0}, 1, 0, 0, 2});  // 9: two columns, moving through columns 0 to 7
  add(shape(8, 2), {{0}, 1, 8});        // 10: columns 8 and 9
  return p;
}();
constexpr bool meet(int v, int w) { return may_overlap(moving, {v}, {w}) && may_overlap(moving, {w}, {v}); }
constexpr bool miss(int v, int w) { return !may_overlap(moving, {v}, {w}) && !may_overlap(moving, {w}, {v}); }
static_assert(meet(2, 3) && meet(2, 4)); // in the third iteration
static_assert(miss(2, 5));               // other columns
static_assert(miss(7, 8) && meet(7, 6) && meet(8, 1) && miss(8, 5) && miss(6, 4));
static_assert(meet(9, 5) && meet(9, 1) && miss(9, 10));

// A slice of a reshaped value, whose rows do not begin where the others' rows do, and rows of two widths.
constexpr program reshaped = [] {
  program p;
  value_info info;
  auto const add = [&](shape s, view v) {
    info.shape = s, info.view = v;
    p.add_value(info);
  };
  add(shape(8, 10), {});
  add(shape(80), {{0}});
  add(shape(4), {{1}, 0, 8});    // the end of row 0, the begin of row 1
  add(shape(8, 2), {{0}, 1, 0}); // columns 0 and 1
  add(shape(8, 2), {{0}, 1, 4}); // columns 4 and 5
  add(shape(16, 5), {{0}});
  add(shape(16, 2), {{5}, 1, 0}); // columns 0, 1, 5 and 6
  return p;
}();
static_assert(may_overlap(reshaped, {2}, {3}) && may_overlap(reshaped, {3}, {2}));
static_assert(may_overlap(reshaped, {6}, {4}) && may_overlap(reshaped, {4}, {6}));

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

TEST_CASE("values that share an element may overlap") {
  auto const elements = [](program const& p, int v) {
    auto const l = locate(p, {v});
    auto const& s = p.values[v].shape;
    std::set<std::int64_t> all;
    for (std::int64_t i = 0; i < (l.axis < 0 ? 1 : p.axes[l.axis].extent); ++i)
      for (std::int64_t e = 0; e < s.elements(); ++e)
        all.insert(l.begin + i * l.iteration_stride +
                   (l.row_stride == 0 ? e : e / s.features() * l.row_stride + e % s.features()));
    return all;
  };
  for (auto const* p : {&made, &nested, &moving, &reshaped})
    for (int v = 0; v < p->values.size(); ++v)
      for (int w = 0; w < p->values.size(); ++w) {
        CAPTURE(v);
        CAPTURE(w);
        bool shared = false;
        for (auto const e : elements(*p, v)) shared = shared || elements(*p, w).contains(e);
        CHECK((may_overlap(*p, {v}, {w}) || !shared));
      }
}
