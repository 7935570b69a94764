#include "../temporary_directory.hpp"
#include "process.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <utility>
#include <vector>

// A job (job.cpp) is killed, or its file system fails, at every call of a save and at random instants: its checkpoint
// is always the complete old one or the complete new one, and a run resumed from it ends with the same bytes.

namespace fs = std::filesystem;
using ct_directory = constrain::test::temporary_directory;
using constrain::test::process, constrain::test::read_file;

namespace {

struct outcome {
  int status = 0; // as waitpid gives it
  std::string said;

  bool killed() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }
  bool done() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  bool refused() const { return WIFEXITED(status) && WEXITSTATUS(status) == 3; }
};

process start(std::string const& directory, int steps, std::string const& said, std::vector<std::string> more = {}) {
  more.push_back("OMP_NUM_THREADS=1");
  return {{CONSTRAIN_CRASH_JOB, directory, std::to_string(steps)}, std::move(more), said};
}

/// All that a checkpoint holds, in one text; empty where there is none.
std::string content(std::string const& directory) {
  std::string all;
  for (auto const* name : {"manifest.json", "model.safetensors", "optimizer.safetensors", "state.json", "config.json"})
    if (fs::exists(directory + "/" + name)) all += read_file(directory + "/" + name);
  return all;
}

/// Whether the next save has removed all that one that was cut short had left.
bool nothing_left_beside(std::string const& directory) {
  for (auto const& entry : fs::directory_iterator(fs::path(directory).parent_path()))
    if (entry.path().filename().string().find("run.") != std::string::npos) {
      MESSAGE(entry.path().string());
      return false;
    }
  return true;
}

outcome run(std::string const& directory, int steps, std::string const& said, std::vector<std::string> more = {}) {
  auto const status = start(directory, steps, said, std::move(more)).wait();
  return {status, read_file(said)};
}

/// The files of an undisturbed run after a step.
std::string reference(int steps) {
  ct_directory const scratch;
  REQUIRE(run(scratch / "run", steps, scratch / "said").done());
  return content(scratch / "run");
}

/// A run from the checkpoint in `first` (none where it is empty) by one step to `steps`, with its n-th call to the file
/// system spoiled: `how` is the errno it gives, 0 kills.
outcome spoiled(std::string const& first, std::string const& directory, int steps, int at, int how,
                std::string const& said) {
  fs::remove_all(directory);
  if (!first.empty()) fs::copy(first, directory);
  return run(directory, steps, said,
             {"LD_PRELOAD=" CONSTRAIN_CRASH_SHIM, "ASAN_OPTIONS=verify_asan_link_order=0",
              "CRASH_AT=" + std::to_string(at), "CRASH_HOW=" + std::to_string(how)});
}

/// Kills at every call of the step after `before`. Returns how many calls there were.
int killed_everywhere(int before) {
  std::string const old_content = before == 0 ? "" : reference(before), new_content = reference(before + 1);
  ct_directory const scratch;
  auto const first = before > 0 ? scratch / "first" : "", directory = scratch / "run", said = scratch / "said";
  if (before > 0) REQUIRE(run(first, before, said).done());
  for (int at = 1;; ++at) {
    CAPTURE(at);
    auto const o = spoiled(first, directory, before + 1, at, 0, said);
    auto const left = content(directory);
    REQUIRE((left == old_content || left == new_content));
    if (o.done()) return at - 1; // there are no more calls
    REQUIRE(o.killed());
    REQUIRE(run(directory, before + 1, said).done());
    REQUIRE((content(directory) == new_content));
    REQUIRE(nothing_left_beside(directory));
  }
}

bool exhaustive() { return std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr; }

} // namespace

TEST_CASE("killed at every call of a first save, and of a later one") {
  CHECK(killed_everywhere(0) > 10);
  CHECK(killed_everywhere(1) > 10);
}

TEST_CASE("a disk that is full, broken or over its quota at every call") {
  int const calls = killed_everywhere(1);
  std::string const old_content = reference(1), new_content = reference(2);
  ct_directory const scratch;
  auto const first = scratch / "first", directory = scratch / "run", said = scratch / "said";
  REQUIRE(run(first, 1, said).done());
  for (int how : {ENOSPC, EIO, EDQUOT}) {
    CAPTURE(how);
    int refused = 0;
    for (int at = 1; at <= calls; ++at) {
      CAPTURE(at);
      auto const o = spoiled(first, directory, 2, at, how, said);
      CAPTURE(o.said);
      auto const left = content(directory);
      // Harmless failures, for example while cleaning up, may be ignored; all others are one sentence.
      REQUIRE((o.refused() || o.done()));
      if (o.done()) REQUIRE((left == new_content));
      if (o.refused()) {
        ++refused;
        REQUIRE((left == old_content || left == new_content));
        REQUIRE(o.said.find('\n') == o.said.size() - 1);
        REQUIRE(o.said.find(std::strerror(how)) != std::string::npos);
      }
      REQUIRE(run(directory, 2, said).done());
      REQUIRE((content(directory) == new_content));
      REQUIRE(nothing_left_beside(directory));
    }
    CHECK(refused > 10); // every write, sync and move
  }
}

TEST_CASE("killed at random instants") {
  int const wanted = exhaustive() ? 2000 : 20;
  constexpr int steps = 60;
  auto const expected = reference(steps);
  ct_directory const scratch;
  auto const directory = scratch / "run";
  auto const seconds_to_end = [&] {
    fs::remove_all(directory);
    auto const began = std::chrono::steady_clock::now();
    REQUIRE(run(directory, steps, scratch / "said").done());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  double whole = seconds_to_end();
  std::mt19937 random(7);
  int killed = 0, too_late = 0, saved = 0;
  while (killed < wanted) {
    CAPTURE(killed);
    fs::remove_all(directory);
    auto job = start(directory, steps, scratch / "said");
    std::this_thread::sleep_for(std::chrono::duration<double>(std::uniform_real_distribution<>(0, whole)(random)));
    ::kill(job.id(), SIGKILL);
    bool const in_time = outcome{job.wait(), {}}.killed();
    (in_time ? killed : too_late) += 1;
    saved += content(directory).empty() ? 0 : 1;
    auto const o = run(directory, steps, scratch / "said");
    CAPTURE(o.said);
    REQUIRE(o.done());
    REQUIRE((content(directory) == expected));
    REQUIRE(nothing_left_beside(directory));
    if (!in_time) whole = seconds_to_end(); // the load may have changed since the measurement
    REQUIRE(too_late < 2 * wanted);
  }
  MESSAGE(killed << " were killed before their end, " << too_late << " after it, " << saved << " had saved");
}
