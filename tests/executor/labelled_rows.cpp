// Loops that leave out rows whose labels are ignored: the executor counts their iterations from the batch's labels.

#include <constrain/run/executor.hpp>
#include <doctest/doctest.h>

#include <vector>

namespace ct = constrain;

namespace {

// 36 rows: two chunks of 16, and the last 4.
constexpr ct::labelled_rows chunks{.begin = 0, .per_iteration = 16}, last{.begin = 32, .per_iteration = 4};
static_assert(chunks.iterations(0) == 1 && chunks.iterations(1) == 1 && chunks.iterations(16) == 1);
static_assert(chunks.iterations(17) == 2 && chunks.iterations(32) == 2 && chunks.iterations(36) == 3);
static_assert(last.iterations(0) == 0 && last.iterations(32) == 0 && last.iterations(33) == 1);
static_assert(last.iterations(36) == 1);

/// The iterations of the calls so far, as `micro-batch, number of the call, chunk`.
std::vector<std::vector<std::int64_t>> calls;
template <int number> void note(ct::call const& c, ct::bound_operand const*) {
  calls.push_back({c.first_sample, number, static_cast<std::int64_t>(c.iteration)});
}

ct::step begin(int axis, int partner, bool reversed = false) {
  ct::step s;
  s.kind = ct::node_kind::loop, s.axis = axis, s.partner = partner, s.reversed = reversed;
  return s;
}
ct::step end(int axis, int partner, bool reversed = false) {
  auto s = begin(axis, partner, reversed);
  s.kind = ct::node_kind::end;
  return s;
}
ct::step call_in(int axis) {
  ct::step s;
  s.iteration.push_back({axis, 1});
  return s;
}

/// For each micro-batch, a loop over chunks of rows, one over the last rows, and a call.
struct row_loops {
  bool reversed = false;
  ct::step steps[9] = {begin(0, 8), begin(1, 3, reversed),
                       call_in(1),  end(1, 1, reversed),
                       begin(2, 6), call_in(2),
                       end(2, 4),   call_in(0),
                       end(0, 0)};
  ct::plan_axis axes[3] = {{.extent = 2}, {.extent = 2, .rows = chunks}, {.extent = 1, .rows = last}};
  ct::launcher launchers[9] = {nullptr, nullptr, &note<0>, nullptr, nullptr, &note<1>, nullptr, &note<2>, nullptr};

  auto run(std::int64_t const* valid_labels) const {
    calls.clear();
    ct::step_parameters parameters;
    parameters.samples = 1;
    parameters.valid_labels = valid_labels;
    ct::execute({steps, 9, nullptr, axes, 0, launchers}, nullptr, parameters, ct::no_hooks());
    return calls;
  }
};
using all = std::vector<std::vector<std::int64_t>>;

} // namespace

TEST_CASE("each micro-batch has its own number of iterations") {
  std::int64_t const one_and_all[] = {1, 36};
  CHECK(row_loops().run(one_and_all) == all{{0, 0, 0}, {0, 2, 0}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 2, 1}});
  std::int64_t const all_but_four_and_none[] = {32, 0};
  CHECK(row_loops().run(all_but_four_and_none) == all{{0, 0, 0}, {0, 0, 1}, {0, 2, 0}, {1, 0, 0}, {1, 2, 1}});
}

TEST_CASE("a reversed loop leaves out the same iterations") {
  std::int64_t const valid[] = {17, 16};
  CHECK(row_loops{true}.run(valid) == all{{0, 0, 1}, {0, 0, 0}, {0, 2, 0}, {1, 0, 0}, {1, 2, 1}});
}

TEST_CASE("without a number of valid labels, all iterations run") {
  auto const full = all{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 2, 0}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 2, 1}};
  CHECK(row_loops().run(nullptr) == full);
}
