#include "../sentence.hpp"

#include <constrain/base/error.hpp>
#include <constrain/data/prefetch.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <pthread.h>
#include <vector>

namespace ct = constrain;
using ct::test::sentence;

namespace {

using item = std::vector<int>;

/// Items filled with 0, 1, 2, ..., and a failure in place of item `bad`.
struct counting {
  std::atomic<int>* made;
  int bad = -1;
  int number = 0;

  void operator()(item& out) {
    if (number == bad) throw ct::error({"item ", number, " cannot be made"});
    out.assign(out.size(), number++);
    ++*made;
  }
};

} // namespace

TEST_CASE("prefetch: every item once, in order, as it is until the next one is asked for") {
  std::atomic<int> made = 0;
  ct::data::prefetch<item, counting> items(item(1000), {&made});
  for (int i = 0; i < 2000; ++i) {
    auto const& one = items.next();
    CHECK(one == item(1000, i));
    if (i % 100 == 0)
      while (made < i + 2) {} // the next one is there, without being asked for
    CHECK(one == item(1000, i));
    CHECK(made <= i + 2);
  }
}

TEST_CASE("prefetch: what cannot be made is told where it is asked for") {
  std::atomic<int> made = 0;
  ct::data::prefetch<item, counting> items(item(1), {&made, 3});
  for (int i = 0; i < 3; ++i) CHECK(items.next() == item{i});
  for (int again = 0; again < 2; ++again) CHECK(sentence([&] { items.next(); }) == "item 3 cannot be made");
}

TEST_CASE("prefetch: it ends at any moment") {
  std::atomic<int> made = 0;
  for (int i = 0; i < 300; ++i) {
    ct::data::prefetch<item, counting> items(item(static_cast<std::size_t>(1 + 50 * i)), {&made});
    for (int k = 0; k < i % 4; ++k) items.next();
  }
  CHECK(made >= 450);
}

TEST_CASE("prefetch: without a thread the items are the same") {
  pthread_attr_t before, huge;
  REQUIRE(::pthread_getattr_default_np(&before) == 0);
  REQUIRE(::pthread_getattr_default_np(&huge) == 0);
  REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50) == 0); // more than any address space
  REQUIRE(::pthread_setattr_default_np(&huge) == 0);
  std::atomic<int> made = 0;
  ct::data::prefetch<item, counting> items(item(5), {&made, 7});
  REQUIRE(::pthread_setattr_default_np(&before) == 0);
  for (int i = 0; i < 7; ++i) {
    CHECK(items.next() == item(5, i));
    CHECK(made == i + 1); // none ahead
  }
  CHECK(sentence([&] { items.next(); }) == "item 7 cannot be made");
}
