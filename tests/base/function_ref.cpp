#include <constrain/base/function_ref.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace constrain;

TEST_CASE("a borrowed function is called with what it is given, whatever it is") {
  int calls = 0;
  auto const count = [&](int by) { return calls += by; };
  function_ref<int(int)> const borrowed = count;
  CHECK(borrowed(2) == 2);
  CHECK(borrowed(3) == 5);
  auto state = [n = 0]() mutable { return ++n; };
  function_ref<int()> const own(state);
  borrowed(0), own();
  CHECK(own() == 2);
  // The result may be dropped, and the arguments may be moved.
  auto const size = [&](std::string text) { return calls = static_cast<int>(text.size()); };
  function_ref<void(std::string)> const drops = size;
  drops("four");
  CHECK(calls == 4);
}
