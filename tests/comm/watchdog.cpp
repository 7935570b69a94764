#include <constrain/comm/watchdog.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

// The deadlines of nested waits, each in a process of its own, which the watchdog may end.

namespace {

using constrain::watchdog;

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

struct outcome {
  int status = 0; // 1: the watchdog has ended the process
  std::string said;
};

/// Runs `waits` in a child process with a watchdog.
template <class function> outcome in_a_child(function const& waits) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], 2);
    watchdog::instance().start();
    watchdog::instance().rank(0);
    watchdog::instance().call("a test");
    waits();
    ::_exit(0);
  }
  ::close(ends[1]);
  outcome o;
  char bytes[256];
  for (::ssize_t size = 0; (size = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    o.said.append(bytes, static_cast<std::size_t>(size));
  ::close(ends[0]);
  ::waitpid(child, &o.status, 0);
  o.status = WEXITSTATUS(o.status);
  return o;
}

/// Checks that the watchdog ended the process during the wait `name`.
void check_ended(outcome const& o, std::string const& name) {
  CAPTURE(o.said);
  CHECK(o.status == 1);
  CHECK(o.said.find("rank 0 has waited ") == 0);
  CHECK(o.said.find("(a test: " + name + ")") != o.said.npos);
}

} // namespace

TEST_CASE("a wait that is longer than its deadline ends the process, the next wait begins anew") {
  auto const o = in_a_child([] {
    for (int k = 0; k < 6; ++k) {
      watchdog::wait const waits("brief", 1);
      pause(0.3);
    }
    watchdog::wait const waits("long", 0.5);
    pause(60);
  });
  check_ended(o, "long");
}

TEST_CASE("a stop ends the thread, even if a start follows immediately") {
  auto const threads = [] {
    std::filesystem::directory_iterator const all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  auto const o = in_a_child([&] {
    watchdog::instance().start();
    auto const with_one = threads(); // sanitizers have threads of their own
    for (int k = 0; k < 3; ++k) watchdog::instance().stop(), watchdog::instance().start();
    pause(0.6);
    if (threads() != with_one) ::_exit(2);
    watchdog::instance().stop();
    pause(0.6);
    if (threads() != with_one - 1) ::_exit(3);
  });
  CHECK(o.status == 0);
}

TEST_CASE("an inner wait with a longer deadline leaves the outer wait its own") {
  auto const o = in_a_child([] {
    watchdog::wait const outer("outer", 1);
    {
      watchdog::wait const inner("inner", 1000);
      pause(0.1);
    }
    pause(20);
  });
  check_ended(o, "outer");
}

TEST_CASE("inner waits do not restart the time of the outer wait") {
  auto const o = in_a_child([] {
    watchdog::wait const outer("outer", 1);
    for (int k = 0; k < 100; ++k) {
      watchdog::wait const inner("inner", 1000);
      pause(0.1);
    }
  });
  check_ended(o, "outer");
}

TEST_CASE("the shorter deadline of an inner wait ends with it") {
  auto const o = in_a_child([] {
    watchdog::wait const outer("outer", 1000);
    {
      watchdog::wait const inner("inner", 2);
      pause(0.1);
    }
    pause(3);
  });
  CAPTURE(o.said);
  CHECK(o.status == 0);
  CHECK(o.said.empty());
  auto const longer = in_a_child([] {
    watchdog::wait const outer("outer", 1000);
    watchdog::wait const inner("inner", 0.5);
    pause(20);
  });
  check_ended(longer, "inner");
}
