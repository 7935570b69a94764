#include "simulate.hpp"

#include <doctest/doctest.h>

// Faults that each pass would cause if it mistook a view for a value with its own buffer. The tests must find them.

using namespace constrain;
using namespace constrain::test;

namespace {

program viewed(int every) { return slice_views(coalesce(recompute(updated(built<gpt2_task>()), every))); }

bool is_root_of_a_view(program const& p, int value) {
  for (auto const& info : p.values)
    if (info.view && info.view.of.value == value) return true;
  return false;
}
int first_write(program const& p, int value) {
  for (int i = 0; i < p.nodes.size(); ++i)
    for (auto const& output : p.nodes[i].outputs)
      if (output.value == value) return i;
  return -1;
}
/// The last node that reads the value itself, or a view of it.
int last_read(program const& p, int value, bool through_views) {
  int last = -1;
  for (int i = 0; i < p.nodes.size(); ++i)
    for (auto const& input : p.nodes[i].inputs)
      if (input.value == value || (through_views && p.values[input.value].view.of.value == value)) last = i;
  return last;
}
program without_node(program const& p, int removed) {
  return rewrite(p, [&](builder& out, node const& n, int i) {
    if (i != removed) out.program.add_node(n);
  });
}

} // namespace

TEST_CASE("in_place: a value that views still read is overwritten") {
  auto const p = viewed(0);
  REQUIRE(verify(p).ok());
  int planted = 0;
  for (int root = 0; root < p.values.size(); ++root) {
    if (!is_root_of_a_view(p, root) || first_write(p, root) < 0) continue;
    for (int to = 0; to < p.values.size(); ++to) {
      auto const &from = p.values[root], &target = p.values[to];
      bool const fits = target.role == role::activation && !target.view && !target.is_loop_carried() &&
                        target.shape.elements() * size_of(target.type) <= from.shape.elements() * size_of(from.type);
      int const write = first_write(p, to);
      if (!fits || to == root || write <= first_write(p, root) || write >= last_read(p, root, true)) continue;
      auto faulty = p;
      faulty.values[root].overwritten_by = {to};
      CHECK(verify(faulty).reason == why::overwritten_before_read);
      ++planted;
    }
  }
  CHECK(planted > 0);
}

TEST_CASE("coalesce: a value is renamed, but not in its views") {
  auto const p = viewed(0);
  int planted = 0;
  for (int root = 0; root < p.values.size(); ++root) {
    if (!is_root_of_a_view(p, root) || first_write(p, root) < 0 || p.values[root].is_loop_carried()) continue;
    auto faulty = p;
    auto other = p.values[root];
    ref const renamed{faulty.add_value(other)};
    constrain::detail::use_ranges uses(faulty);
    constrain::detail::rename(faulty, uses, {root}, renamed);
    CHECK(verify(faulty).reason == why::read_before_written);
    ++planted;
  }
  CHECK(planted > 0);
}

TEST_CASE("dead-code elimination, recompute: a node whose result only views read, or that writes a view, is left out") {
  for (int every : {0, 2}) {
    auto const p = viewed(every);
    REQUIRE(verify(p).ok());
    int planted = 0;
    for (int v = 0; v < p.values.size(); ++v) {
      int const write = first_write(p, v);
      if (write < 0 || p.values[v].is_loop_carried()) continue;
      bool const read_by_views_only =
          is_root_of_a_view(p, v) && last_read(p, v, false) < 0 && last_read(p, v, true) >= 0;
      bool const is_part = static_cast<bool>(p.values[v].view);
      if (!read_by_views_only && !is_part) continue;
      CHECK(verify(without_node(p, write)).reason == why::read_before_written);
      ++planted;
    }
    CHECK(planted >= (every == 0 ? 4 : 5)); // the result of a matmul, three gradients; the same matmul once more
  }
}

TEST_CASE("memory planning: a value dies before its views") {
  for (int every : {0, 2}) {
    auto const p = in_place(viewed(every));
    REQUIRE(simulate(p, plan_memory(p)).errors.empty());
    auto without_views = p;
    for (auto& info : without_views.values) info.view = {};
    CHECK(!simulate(p, plan_memory(without_views)).errors.empty());
  }
}
