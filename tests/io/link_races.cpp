#include "../sentence.hpp"
#include "link_scene.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdarg>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

// Names that somebody else changes while a checkpoint is saved: nothing of theirs is lost.

using namespace constrain::test;

namespace {

std::function<void()> before_exchange; // of two names, once

} // namespace

// The library exchanges names through this function of the C library.
// (Most callers give fewer arguments than it hands on.)
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (auto& argument : a) argument = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_renameat2 && before_exchange) std::exchange(before_exchange, {})();
  return reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"))(number, a[0], a[1], a[2], a[3], a[4],
                                                                              a[5]);
}

TEST_CASE("links: a name that changes between a save's abandoned directory and a link to somebody's, all the time") {
  scene const s;
  save(s.target, "old");
  auto const evil = s.at(".c.partial-evil");
  std::atomic<bool> done = false;
  std::thread swapping([&] {
    while (!done) {
      fs::create_directory_symlink(s.outside + "/folder", evil);
      ::unlink(evil.c_str());
      ::mkdir(evil.c_str(), 0777);
      ::rmdir(evil.c_str());
    }
  });
  auto const outside = snapshot(s.outside);
  for (int i = 0; i < 500; ++i) save(s.target, std::to_string(i));
  done = true;
  swapping.join();
  CHECK((snapshot(s.outside) == outside));
  CHECK(load(s.target) == "499");
}

#if defined(SYS_renameat2)
TEST_CASE("links: what is put in the checkpoint's place at the last moment is put aside") {
  for (auto const& t : both()) {
    scene const s;
    CAPTURE(std::string(t.name));
    save(s.target, "old");
    t.put(s, s.at("mine"));
    auto const outside = snapshot(s.outside), mine = snapshot(s.at("mine"));
    before_exchange = [&] { ::renameat2(AT_FDCWD, s.at("mine").c_str(), AT_FDCWD, s.target.c_str(), RENAME_EXCHANGE); };
    save(s.target, "new");
    CHECK_FALSE(before_exchange);
    CHECK(load(s.target) == "new");
    CHECK((snapshot(s.outside) == outside));
    int found = 0;
    for (auto const& entry : fs::directory_iterator(s.shared))
      if (snapshot(entry.path()) == mine) {
        ++found;
        CHECK(entry.path().string().starts_with(s.target + ".kept-"));
      }
    CHECK(found == 1);
    ++cases;
  }
}

TEST_CASE("links: a folder that is put in the checkpoint's place while it is saved is lost at no moment") {
  scene const s;
  save(s.target, "old");
  folder(s.at("mine"));
  auto const before = snapshot(s.at("mine"));
  std::atomic<bool> done = false;
  std::thread swapping([&] {
    while (!done) ::renameat2(AT_FDCWD, s.at("mine").c_str(), AT_FDCWD, s.target.c_str(), RENAME_EXCHANGE);
  });
  auto const places = [&] {
    std::vector<std::string> found;
    for (auto const& entry : fs::directory_iterator(s.shared))
      if (fs::exists(entry.path() / "thesis.txt")) found.push_back(entry.path());
    return found;
  };
  int refused = 0, kept = 0;
  for (int i = 0; i < 500; ++i) {
    refused += sentence([&] { save(s.target, "new"); }).empty() ? 0 : 1;
    if (fs::exists(s.at("mine"))) continue;
    // A save has put it aside: back with it, for the next.
    auto const there = places();
    REQUIRE(there.size() == 1);
    REQUIRE(there[0].starts_with(s.target + ".kept-"));
    fs::rename(there[0], s.at("mine"));
    ++kept;
  }
  done = true;
  swapping.join();
  MESSAGE(refused << " of 500 saves were refused, " << kept << " put it aside");
  REQUIRE(places().size() == 1);
  CHECK((snapshot(places()[0]) == before));
}
#endif

TEST_CASE("links: there were enough of them") {
  MESSAGE(cases << " cases");
  CHECK(cases >= 20);
}
