// The n-th call of CUDA or cuBLASLt fails, for every n: one sentence, nothing leaks, and a step is made whole or not.
// Where CONSTRAIN_EXHAUSTIVE is not set, only every few n in some of the tests.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Whether every call fails once, and not every few.
bool exhaustive() { return std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr; }

using tiny = gpt<1, 1, 4, 7, 3, 1>;
using trainer = ct::trainer<tiny, device_policy>;
using graph_trainer = ct::trainer<tiny, device_policy, ct::launch::graph>;

/// How many calls `f` makes.
template <class function> std::int64_t calls_of(function const& f) {
  on_host::let_fail(0);
  auto const before = on_host::calls;
  f();
  return on_host::calls - before;
}

/// A sentence that says what could not be done, and no second line.
void check_sentence(std::string const& what) {
  CAPTURE(std::string(on_host::failed == nullptr ? "no call" : on_host::failed));
  CAPTURE(what);
  CHECK(what.size() > 20);
  CHECK(what.find('\n') == std::string::npos);
}

template <class T> void trains(T& t) {
  losses_of(t, 2);
  auto const w = tokens_for<T>(1);
  t.evaluate(w.inputs, w.labels);
  t.predict(w.inputs);
  t.generate(std::span(w.inputs).first(1), 2);
  auto const first = t.enqueue(t.batch(w.inputs, w.labels)); // both are dropped without a wait
  auto const second = t.enqueue(t.batch(w.inputs, w.labels));
  t.state();
}

/// A whole life of a trainer, of which call n fails.
template <class T> void nothing_leaks(bool all_later, int stride) {
  auto const life = [] {
    T t({}, numbers);
    trains(t);
  };
  life();
  auto const calls = calls_of(life);
  CHECK(calls > 60);
  int not_captured = 0;
  for (std::int64_t n = 1; n <= calls; n += exhaustive() ? 1 : stride) {
    CAPTURE(n);
    on_host::let_fail(n, all_later);
    bool thrown = true;
    auto const what = sentence([&] { life(), thrown = false; });
    // A capture that fails says nothing: the run is made without a graph, and the next one tries again.
    if (thrown || all_later || !T::policy_set::launching::value.captures) check_sentence(what);
    else ++not_captured;
    on_host::let_fail(0);
    CHECK(on_host::still_alive() == "");
    CHECK(on_host::device_memory::count() == 0);
  }
  CHECK((not_captured > 0) == (T::policy_set::launching::value.captures && !all_later));
}

/// Step `steps` of a trainer, of which call n fails: the weights are as before, and the step can be repeated; or, if
/// the failing call comes after the kernels, they are the weights after the step. The first step of a graph is done
/// although its capture fails, and the trainer continues.
template <class T> void step_is_made_or_not(int steps, int stride) {
  T sound({}, numbers);
  losses_of(sound, steps);
  auto const before = weights_of(sound);
  auto const calls = calls_of([&] { losses_of(sound, 1, static_cast<unsigned>(steps)); });
  auto const after = weights_of(sound);
  auto const next = losses_of(sound, 2, static_cast<unsigned>(steps) + 1);
  int made = 0, not_made = 0, not_captured = 0;
  for (std::int64_t n = 1; n <= calls; n += exhaustive() ? 1 : stride) {
    CAPTURE(n);
    T t({}, numbers);
    losses_of(t, steps);
    cudaGetLastError(); // of the n before
    on_host::let_fail(n);
    bool thrown = true;
    auto const what = sentence([&] { losses_of(t, 1, static_cast<unsigned>(steps)), thrown = false; });
    on_host::let_fail(0);
    bool const is_made = same_bits(weights_of(t), after);
    if (!thrown) {
      CHECK(is_made);
      CHECK(cudaGetLastError() == cudaSuccess); // the program's next check of its own calls finds no error of ours
      CHECK(same_bits(losses_of(t, 2, static_cast<unsigned>(steps) + 1), next));
      ++not_captured;
      continue;
    }
    check_sentence(what);
    ++(is_made ? made : not_made);
    if (is_made) continue;
    CHECK(same_bits(weights_of(t), before));
    losses_of(t, 1, static_cast<unsigned>(steps));
    CHECK(same_bits(weights_of(t), after));
  }
  CAPTURE(made);
  CHECK(not_made > 0);
  CHECK((not_captured > 0) == (T::policy_set::launching::value.captures && steps == 0));
}

} // namespace

TEST_CASE("a call that fails is a sentence, and nothing leaks") {
  on_host::device_memory::filled = 0; // NaN in every new arena would take most of the time
  nothing_leaks<trainer>(false, 1);
  nothing_leaks<graph_trainer>(false, 5);
  nothing_leaks<trainer>(true, 13);
  nothing_leaks<graph_trainer>(true, 13);
}

TEST_CASE("the end of a capture that fails after what it captures leaves no error of CUDA") {
  cudaStream_t stream{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  cudaGetLastError(); // of the test before
  on_host::let_fail(2);
  ct::cuda_graph graph;
  CHECK(sentence([&] { graph.capture(stream, [] { throw ct::error("no kernel"); }); }) == "no kernel");
  CHECK(std::string(on_host::failed) == "cudaStreamEndCapture");
  on_host::let_fail(0);
  CHECK(cudaGetLastError() == cudaSuccess);
  cudaStreamDestroy(stream);
}

TEST_CASE("a step of which a call fails is not made, or all of it") {
  on_host::device_memory::filled = 0;
  step_is_made_or_not<trainer>(0, 5);
  step_is_made_or_not<trainer>(2, 1);
  step_is_made_or_not<graph_trainer>(0, 5);
  step_is_made_or_not<graph_trainer>(2, 1);
}
