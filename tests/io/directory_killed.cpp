#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Writers of a checkpoint that are killed, or write at the same time.

using namespace constrain::test;

TEST_CASE("directory: a writer that died at any moment of its beginning leaves nothing for ever") {
  temporary_directory const scratch;
  std::string mark;
  {
    directory_writer w(scratch / "c");
    for (auto const& entry : fs::directory_iterator(scratch.path)) mark = read_file(entry.path() / ".constrain");
  }
  auto const left = scratch / ".c.partial-1";
  fs::create_directory(left); // before its mark
  save(scratch / "c", "one");
  CHECK(scratch.entries() == 1);
  for (std::size_t const size : {std::size_t{0}, std::size_t{10}, mark.size() - 1}) { // amid its head
    fs::create_directory(left);
    write_file(left + "/.constrain", mark.substr(0, size));
    save(scratch / "c", "two");
    CHECK(fs::exists(left) == (size > 10)); // that names another directory
    fs::remove_all(left);
  }
}

TEST_CASE("directory: a writer that was killed is cleaned up after, a living one is left alone") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one");
  auto const child = ::fork();
  if (child == 0) {
    directory_writer w(path);
    w.write("state.json", "unfinished");
    ::_exit(0); // Without destructors, as a kill would.
  }
  ::waitpid(child, nullptr, 0);
  CHECK(scratch.entries() == 2);
  CHECK(load(path) == "one");
  directory_writer living(path);
  living.write("state.json", "three");
  CHECK(scratch.entries() == 2);
  save(path, "two");
  CHECK(load(path) == "two");
  CHECK(scratch.entries() == 2);
  living.write("weights.bin", "three");
  living.commit();
  CHECK(load(path) == "three");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("directory: killed at any moment, the old or the new one is there, whole") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "0", how);
    for (int attempt = 0; attempt < 40; ++attempt) {
      auto const child = ::fork();
      if (child == 0) {
        for (int i = 0;; ++i) save(path, std::to_string(i), how);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500 + 377 * attempt));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      CHECK_FALSE(load(path).empty());
    }
    save(path, "last", how);
    CHECK(load(path) == "last");
    CHECK(scratch.entries() == 1);
  }
}

TEST_CASE("directory: writers at the same time end with one of their directories, whole") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "start");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) sentence([&] { save(path, std::to_string(t)); });
    });
  for (auto& thread : threads) thread.join();
  CHECK(load(path).size() == 1);
  save(path, "end");
  CHECK(scratch.entries() == 1);
}
