#include "check_gradients.hpp"
#include "sentence.hpp"

#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// Steps that are enqueued, on the CPU: `enqueue` takes the whole step, and the ticket holds its result.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 23, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task, ct::accumulate<2>>;

struct some_batches {
  std::vector<std::vector<std::int32_t>> inputs, labels;
};
some_batches draw(int count) {
  some_batches all;
  for (int i = 0; i < count; ++i) {
    auto const w = ct::test::random_batch::draw<trainer>(static_cast<unsigned>(i));
    all.inputs.emplace_back(w.inputs.begin(), w.inputs.end());
    all.labels.emplace_back(w.labels.begin(), w.labels.end());
  }
  return all;
}

bool same(ct::step_result const& a, ct::step_result const& b) {
  return a.loss == b.loss && a.gradient_norm == b.gradient_norm && a.tokens == b.tokens && a.skipped == b.skipped &&
         a.not_finite == b.not_finite && a.more_not_finite == b.more_not_finite;
}

static_assert(!std::is_copy_constructible_v<ct::step_ticket> && !std::is_copy_assignable_v<ct::step_ticket>);
static_assert(std::is_nothrow_move_constructible_v<ct::step_ticket>);
static_assert(std::is_nothrow_move_assignable_v<ct::step_ticket>);
static_assert(std::is_same_v<decltype(std::declval<ct::step_ticket&>().wait()), ct::step_result>);

} // namespace

TEST_CASE("enqueue and wait is step") {
  auto const data = draw(3);
  trainer stepped, enqueued;
  std::vector<ct::step_ticket> tickets;
  std::vector<ct::step_result> results;
  for (std::size_t i = 0; i < 3; ++i) {
    results.push_back(stepped.step(stepped.batch(data.inputs[i], data.labels[i])));
    tickets.push_back(enqueued.enqueue(enqueued.batch(data.inputs[i], data.labels[i])));
    CHECK(enqueued.steps().count() == static_cast<std::int64_t>(i) + 1);
  }
  for (std::size_t i = 3; i-- > 0;) CHECK(same(tickets[i].wait(), results[i]));
  CHECK(results[0].loss != results[1].loss);
  CHECK(same(tickets[1].wait(), results[1])); // again
  std::vector<float> a(static_cast<std::size_t>(stepped.parameters()[0].size())), b(a.size());
  stepped.parameters()[0].copy_to(std::span(a));
  enqueued.parameters()[0].copy_to(std::span(b));
  CHECK(a == b);
}

TEST_CASE("a ticket outlives its trainer, and a dropped ticket's step counts") {
  auto const data = draw(2);
  auto t = std::make_optional<trainer>();
  trainer other;
  auto const expected = other.step(other.batch(data.inputs[0], data.labels[0]));
  auto ticket = t->enqueue(t->batch(data.inputs[0], data.labels[0]));
  { auto const dropped = t->enqueue(t->batch(data.inputs[1], data.labels[1])); }
  CHECK(t->steps().count() == 2);
  CHECK(t->state().steps.count() == 2);
  other.step(other.batch(data.inputs[1], data.labels[1]));
  CHECK(t->evaluate(data.inputs[0], data.labels[0]).loss == other.evaluate(data.inputs[0], data.labels[0]).loss);
  t.reset();
  CHECK(same(ticket.wait(), expected));
}

TEST_CASE("an empty ticket has no result") {
  char const* const none = "wait: this ticket has no step, because it is empty or was moved from; call `wait` on "
                           "the ticket that `enqueue` returned or, if you moved that ticket, on the ticket that you "
                           "moved it to";
  ct::step_ticket empty;
  CHECK(sentence([&] { (void)empty.wait(); }) == none);
  auto const data = draw(1);
  trainer t;
  auto first = t.enqueue(t.batch(data.inputs[0], data.labels[0]));
  auto second = std::move(first);
  CHECK(sentence([&] { (void)first.wait(); }) == none);
  CHECK(second.wait().tokens > 0);
  first = std::move(second);
  CHECK(sentence([&] { (void)second.wait(); }) == none);
  CHECK(first.wait().tokens > 0);
}

TEST_CASE("enqueue throws what step throws, and the step does not count") {
  auto const data = draw(1);
  trainer t;
  auto batch = t.batch(data.inputs[0], data.labels[0]);
  batch.labels = batch.labels.first(3);
  auto const from_step = sentence([&] { t.step(batch); });
  CHECK(from_step.starts_with("step: the first input of the batch has "));
  CHECK(sentence([&] { (void)t.enqueue(batch); }) == from_step);
  CHECK(t.steps().count() == 0);
}
