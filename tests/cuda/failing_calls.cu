// The n-th call of CUDA or cuBLASLt fails, for every n: one sentence, nothing leaks, and the trainer is as before.

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
}

/// A whole life of a trainer, of which call n fails.
template <class T> void nothing_leaks(bool all_later) {
  auto const life = [] {
    T t({}, numbers);
    trains(t);
  };
  life();
  auto const calls = calls_of(life);
  CHECK(calls > 60);
  auto const step = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr || !all_later ? 1 : 7;
  for (std::int64_t n = 1; n <= calls; n += step) {
    CAPTURE(n);
    on_host::let_fail(n, all_later);
    check_sentence(sentence(life));
    on_host::let_fail(0);
    CHECK(on_host::still_alive() == "");
    CHECK(on_host::device_memory::count() == 0);
  }
}

} // namespace

TEST_CASE("a call that fails is a sentence, and nothing leaks") {
  nothing_leaks<trainer>(false);
  nothing_leaks<graph_trainer>(false);
  nothing_leaks<trainer>(true);
  nothing_leaks<graph_trainer>(true);
}
