// What `enqueue` leaves to the device, and what is in flight. The stand-in runs work only when the host waits, in a
// random order, and copies pinned memory when it runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using tiny = gpt<1, 1, 4, 7, 3, 1>;
using trainer = ct::trainer<tiny, device_policy>;
using graph_trainer = ct::trainer<tiny, device_policy, ct::launch::graph>;

/// A stream of the test's own.
struct own_stream {
  cudaStream_t handle{};
  own_stream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }
  ~own_stream() { cudaStreamDestroy(handle); }
  own_stream(own_stream const&) = delete;
  own_stream& operator=(own_stream const&) = delete;

  ct::run_options options() const {
    auto run = numbers;
    run.cuda_stream = handle;
    return run;
  }
  /// The newest work of the stream.
  on_host::work_ptr last() const { return handle->last; }
};

template <class T> ct::step_ticket enqueue(T& t, unsigned seed) {
  auto const w = tokens_for<T>(seed % 3);
  return t.enqueue(t.batch(w.inputs, w.labels));
}

template <class T> void enqueue_does_not_wait() {
  CAPTURE(T::policy_set::name());
  own_stream const s;
  T t({}, s.options()), stepped({}, numbers);
  losses_of(t, 2); // the graph is captured, and both slots are made
  auto const losses = losses_of(stepped, 8);
  cudaStreamSynchronize(s.handle);
  CHECK(s.last()->done);
  std::vector<ct::step_ticket> tickets;
  std::vector<on_host::work_ptr> ends; // of the steps
  for (unsigned i = 2; i < 8; ++i) {
    // This work comes first in the stream, so all work after it waits for it.
    auto const marker = on_host::start(*s.handle, {}, {s.last()});
    auto const pageable = on_host::pageable_copies;
    tickets.push_back(enqueue(t, i));
    CHECK(!marker->done);
    CHECK(on_host::pageable_copies == pageable);
    CHECK(t.steps().count() == i + 1);
    ends.push_back(s.last());
    // Of the steps before, at most one is not complete.
    if (ends.size() > 2) CHECK(ends[ends.size() - 3]->done);
  }
  CHECK(!ends.back()->done);
  CHECK(tickets[5].wait().loss == losses[7]);
  CHECK(ends.back()->done);
  for (std::size_t i = 0; i < 6; ++i) CHECK(tickets[i].wait().loss == losses[i + 2]);
}

} // namespace

TEST_CASE("enqueue does not wait for its step, and the third waits for the first") {
  enqueue_does_not_wait<trainer>();
  enqueue_does_not_wait<graph_trainer>();
}

namespace {

/// A regression on real numbers, which are converted on their way to the device.
struct regression {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 5}};

  constexpr ct::value operator()(ct::value x) const { return ct::linear("head", x, 3); }
};

/// Enqueues a step with `inputs` and `labels`, and returns how many of its copies are of pageable memory.
template <class T, class input, class label>
std::int64_t pageable_copies(std::vector<input> const& inputs, std::vector<label> const& labels) {
  T t;
  t.step(t.batch(inputs, labels));
  auto const before = on_host::pageable_copies;
  auto const ticket = t.enqueue(t.batch(inputs, labels));
  return on_host::pageable_copies - before;
}

} // namespace

TEST_CASE("every copy of an enqueued step is one of pinned memory") {
  using tokens = ct::trainer<tiny, ct::accumulate<3>, ct::precision::bf16, device_policy>;
  auto const w = tokens_for<tokens>(1);
  CHECK(pageable_copies<tokens>(w.inputs, w.labels) == 0);
  // 1500 real numbers are converted in two slices.
  using reals = ct::trainer<ct::task<regression{}, ct::mean_squared_error, ct::micro_batch{.sequences = 300}>,
                            ct::precision::bf16, device_policy>;
  CHECK(pageable_copies<reals>(std::vector<double>(1500, 0.5), std::vector<float>(900, 1.0f)) == 0);
}

TEST_CASE("the ring of inputs is not overwritten before it was copied") {
  // The stand-in draws how much runs when the host waits for the third-last step: often the next step has not begun.
  for (int repeat = 0; repeat < 10; ++repeat) {
    graph_trainer stepped({}, numbers), enqueued({}, numbers);
    std::vector<ct::step_ticket> tickets;
    for (unsigned i = 0; i < 7; ++i) tickets.push_back(enqueue(enqueued, i));
    auto const losses = losses_of(stepped, 7);
    for (std::size_t i = 0; i < 7; ++i) CHECK(tickets[i].wait().loss == losses[i]);
    CHECK(same_bits(weights_of(stepped), weights_of(enqueued)));
  }
}

TEST_CASE("every call that reads the trainer waits for the enqueued steps") {
  auto const finishes = [](auto const& call) {
    own_stream const s;
    graph_trainer t({}, s.options());
    losses_of(t, 2);
    auto const first = enqueue(t, 2), second = enqueue(t, 3);
    auto const end = s.last();
    call(t);
    return end->done;
  };
  temporary_directory const directory;
  auto const w = tokens_for<trainer>(1);
  CHECK(!finishes([](graph_trainer&) {}));
  CHECK(!finishes([](graph_trainer& t) { t.steps(), t.learning_rate(); }));
  CHECK(finishes([](graph_trainer& t) { t.state(); }));
  CHECK(finishes([](graph_trainer& t) { t.parameters(); }));
  CHECK(finishes([](graph_trainer& t) { t.gradient("position.weight"); }));
  CHECK(finishes([](graph_trainer& t) { t.state("position.weight", "exp_avg"); }));
  CHECK(finishes([](graph_trainer& t) { t.setting("dropout"); }));
  CHECK(finishes([](graph_trainer& t) { t.set("dropout", 0.2); }));
  CHECK(finishes([&](graph_trainer& t) { t.evaluate(w.inputs, w.labels); }));
  CHECK(finishes([&](graph_trainer& t) { t.predict(w.inputs); }));
  CHECK(finishes([&](graph_trainer& t) { t.generate(std::span(w.inputs).first(1), 1); }));
  CHECK(finishes([&](graph_trainer& t) { t.save(directory / "run"); }));
  CHECK(finishes([&](graph_trainer& t) { t.load(directory / "run"); }));
  CHECK(finishes([&](graph_trainer& t) { t.load_pretrained(directory / "run"); }));
}

TEST_CASE("a saved run has the steps that were enqueued before it") {
  temporary_directory const directory;
  graph_trainer stepped({}, numbers), enqueued({}, numbers), loaded({}, numbers);
  losses_of(stepped, 4);
  for (unsigned i = 0; i < 4; ++i) { auto const dropped = enqueue(enqueued, i); }
  enqueued.save(directory / "run");
  loaded.load(directory / "run");
  CHECK(loaded.steps().count() == 4);
  CHECK(same_bits(weights_of(stepped), weights_of(loaded)));
  CHECK(same_bits(losses_of(stepped, 2), losses_of(loaded, 2)));
}

TEST_CASE("a ticket can be used after its trainer was moved or destroyed") {
  {
    graph_trainer stepped({}, numbers);
    auto const losses = losses_of(stepped, 5);
    auto t = std::make_unique<graph_trainer>(graph_trainer::hyper{}, numbers);
    std::vector<ct::step_ticket> tickets;
    for (unsigned i = 0; i < 3; ++i) tickets.push_back(enqueue(*t, i));
    graph_trainer moved = std::move(*t);
    tickets.push_back(enqueue(moved, 3));
    CHECK(moved.state().steps.count() == 4);
    tickets.push_back(enqueue(moved, 4));
    moved = graph_trainer({}, numbers); // ends the trainer of the tickets
    t.reset();
    for (std::size_t i = 0; i < 5; ++i) CHECK(tickets[i].wait().loss == losses[i]);
    auto const last = enqueue(moved, 0); // is dropped while its step is under way
  }
  CHECK(on_host::still_alive() == "");
}

TEST_CASE("an error of the device is thrown by wait, and by the next call that waits") {
  trainer t({}, numbers);
  losses_of(t, 2);
  auto ticket = enqueue(t, 2);
  on_host::let_fail(1, true);
  auto const thrown = sentence([&] { (void)ticket.wait(); });
  auto const by_state = sentence([&] { (void)t.state(); });
  on_host::let_fail(0);
  CAPTURE(thrown);
  CHECK(thrown.find("CUDA could not ") == 0);
  CHECK(by_state.find("CUDA could not ") == 0);
  trainer stepped({}, numbers);
  CHECK(ticket.wait().loss == losses_of(stepped, 3)[2]);
}

TEST_CASE("a step that cannot be enqueued does not count, and the next one is right") {
  trainer stepped({}, numbers);
  auto const losses = losses_of(stepped, 5);
  for (int n = 0; n <= 9; ++n) { // call n fails; 0: none, but a token is out of range
    CAPTURE(n);
    trainer t({}, numbers);
    auto first = enqueue(t, 0), second = enqueue(t, 1);
    auto w = tokens_for<trainer>(2);
    auto const batch = t.batch(w.inputs, w.labels);
    auto const right = std::exchange(w.inputs.back(), n == 0 ? 1000 : w.inputs.back());
    on_host::let_fail(n);
    auto const what = sentence([&] { (void)t.enqueue(batch); });
    on_host::let_fail(0);
    CAPTURE(what);
    CHECK(what.find(n == 0 ? "step: " : "CUDA could not ") == 0);
    CHECK(t.steps().count() == 2);
    w.inputs.back() = right;
    CHECK(t.enqueue(batch).wait().loss == losses[2]);
    CHECK(first.wait().loss == losses[0]);
    CHECK(second.wait().loss == losses[1]);
    CHECK(same_bits(losses_of(t, 2, 3), {losses[3], losses[4]}));
  }
}

namespace {

std::string refusal(ct::run_options const& run) {
  return sentence([&] { trainer t({}, run); });
}

} // namespace

TEST_CASE("a trainer works on a stream of the user's own, and leaves it alive") {
  own_stream const s;
  {
    auto const streams = on_host::handles<on_host_stream>::living().size();
    graph_trainer t({}, s.options()), other({}, s.options()), stepped({}, numbers);
    CHECK(on_host::handles<on_host_stream>::living().size() == streams + 1);
    auto const losses = losses_of(stepped, 3);
    for (unsigned i = 0; i < 3; ++i) {
      auto a = enqueue(t, i), b = enqueue(other, i);
      CHECK(a.wait().loss == losses[i]);
      CHECK(b.wait().loss == losses[i]);
    }
  }
  CHECK(cudaStreamSynchronize(s.handle) == cudaSuccess);
}

TEST_CASE("work of the user on the stream comes before and after the steps") {
  own_stream const s;
  graph_trainer t({}, s.options());
  losses_of(t, 2);
  auto const before = on_host::start(*s.handle, {}, {s.last()});
  auto ticket = enqueue(t, 2);
  auto const after = on_host::start(*s.handle, {}, {s.last()});
  (void)ticket.wait();
  CHECK(before->done);
  CHECK(!after->done); // `wait` waits for the step, not for the stream
}

TEST_CASE("the legacy default stream is refused with graphs, which cannot capture it") {
  auto run = numbers;
  run.cuda_stream = cudaStreamLegacy;
  CHECK(
      sentence([&] { graph_trainer({}, run); }) ==
      "launch::graph: `.cuda_stream` is cudaStreamLegacy, the legacy default stream, which CUDA cannot capture; leave "
      "it null, make a stream with cudaStreamCreateWithFlags, or write launch::eager");
}

TEST_CASE("the default stream of each thread is refused: work of several threads would lose its order") {
  auto run = numbers;
  run.cuda_stream = cudaStreamPerThread;
  CHECK(refusal(run) ==
        "device::cuda: `.cuda_stream` is cudaStreamPerThread, which is a different stream on each thread; leave it "
        "null, or make a stream with cudaStreamCreateWithFlags");
}

TEST_CASE("a stream of another device is refused") {
  on_host::devices.resize(2);
  cudaSetDevice(1);
  own_stream const second;
  cudaSetDevice(0);
  CHECK(refusal(second.options()) ==
        "device::cuda: `.cuda_stream` is a stream of CUDA device 1, but the trainer or inference object uses device "
        "0; set `.cuda_device` to 1, or make the stream on device 0");
  auto run = second.options();
  run.cuda_device = 1;
  CHECK(refusal(run).empty());
  on_host::devices.resize(1);
}
