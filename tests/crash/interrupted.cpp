#include "../temporary_directory.hpp"
#include "process.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// Runs that are told to end at random instants, by SIGINT or SIGTERM, for each GEMM provider, with one thread and
// with two, and as two processes: each saves, exits 0, and, resumed, ends with the bytes of an undisturbed run.

using constrain::test::process;
using constrain::test::read_file;
using constrain::test::temporary_directory;

namespace {

constexpr char const* steps = "40";

struct setting {
  std::string job;
  int threads;
  int ranks; // 0: without MPI
};

std::vector<std::string> command(setting const& s, std::string const& directory) {
  std::vector<std::string> words;
  if (s.ranks > 0) {
    std::istringstream launcher(CONSTRAIN_LAUNCHER);
    for (std::string word; launcher >> word;) words.push_back(word);
    words.push_back(std::to_string(s.ranks));
  }
  words.insert(words.end(), {s.job, directory, steps});
  return words;
}

process start(setting const& s, std::string const& directory, std::string const& said) {
  return {command(s, directory),
          {"OMP_NUM_THREADS=" + std::to_string(s.threads), "OMP_WAIT_POLICY=passive", "OMPI_ALLOW_RUN_AS_ROOT=1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1"},
          said};
}

bool well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

/// All that the run has saved, in one text.
std::string content(std::string const& directory) {
  std::string all;
  for (auto const* name : {"model.safetensors", "optimizer.safetensors", "state.json"})
    if (std::filesystem::exists(directory + "/" + name)) all += read_file(directory + "/" + name);
  return all;
}

/// The processes of a job that has made its first step; none where it ends before.
std::vector<pid_t> processes_that_train(std::string const& said, int ranks) {
  for (int tries = 0; tries < 6000; ++tries) {
    std::istringstream lines(read_file(said));
    std::vector<pid_t> found;
    bool trains = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("process ")) found.push_back(std::atoi(line.c_str() + 8));
      trains = trains || line.ends_with("trained");
    }
    if (trains && static_cast<int>(found.size()) == std::max(ranks, 1)) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

class trials {
public:
  trials(setting s, std::mt19937& random) : setting_(std::move(s)), random_(random) {
    REQUIRE(well(start(setting_, scratch_ / "whole", said()).wait()));
    expected_ = content(scratch_ / "whole");
    REQUIRE_FALSE(expected_.empty());
    seconds_ = seconds_of_training();
  }

  /// Whether the signal came before the run's end.
  bool one() {
    auto const directory = scratch_ / "run";
    std::filesystem::remove_all(directory);
    int const signal = random_() % 2 == 0 ? SIGINT : SIGTERM;
    auto job = start(setting_, directory, said());
    auto const trains = processes_that_train(said(), setting_.ranks);
    REQUIRE_FALSE(trains.empty());
    std::this_thread::sleep_for(std::chrono::duration<double>(std::uniform_real_distribution<>(0, seconds_)(random_)));
    ::kill(trains[random_() % trains.size()], signal);
    int const status = job.wait();
    auto const told = read_file(said());
    CAPTURE(signal);
    CAPTURE(told);
    bool const interrupted = told.find("interrupted by a signal") != std::string::npos;
    // Behind the fit's end nobody catches it any more.
    bool const came_after = told.find(": all steps are done") != std::string::npos;
    REQUIRE((interrupted || came_after));
    if (interrupted) REQUIRE(well(status));
    REQUIRE_FALSE(content(directory).empty());
    REQUIRE(well(start(setting_, directory, said()).wait()));
    REQUIRE((content(directory) == expected_));
    return interrupted;
  }

private:
  std::string said() const { return scratch_ / "said"; }

  double seconds_of_training() {
    auto job = start(setting_, scratch_ / "timed", said());
    processes_that_train(said(), setting_.ranks);
    auto const began = std::chrono::steady_clock::now();
    job.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  setting setting_;
  std::mt19937& random_;
  temporary_directory scratch_;
  std::string expected_;
  double seconds_ = 0;
};

} // namespace

TEST_CASE("a run that is told to end at a random instant saves, exits 0 and goes on to the same bytes") {
  std::vector<setting> settings;
  std::istringstream jobs(CONSTRAIN_INTERRUPTED_JOBS);
  for (std::string job; jobs >> job;)
    for (int threads : {1, 2}) settings.push_back({job, threads, 0});
  if (std::string const job = CONSTRAIN_INTERRUPTED_MPI_JOB; !job.empty()) settings.push_back({job, 1, 2});
  REQUIRE(settings.size() >= 2);
  int const wanted = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr ? 200 : 20;
  std::mt19937 random(11);
  int in_time = 0, too_late = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    CAPTURE(settings[i].job);
    CAPTURE(settings[i].threads);
    trials all(settings[i], random);
    auto const until = wanted * static_cast<int>(i + 1) / static_cast<int>(settings.size());
    while (in_time < until) {
      (all.one() ? in_time : too_late) += 1;
      REQUIRE(too_late < 2 * wanted);
    }
  }
  MESSAGE(in_time << " were told before their end, " << too_late << " after it, in " << settings.size() << " settings");
}
