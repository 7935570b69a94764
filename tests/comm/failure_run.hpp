#pragma once

#include "../temporary_directory.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Runs of several ranks (failure_job.cpp), watched from outside.

namespace constrain::test {

namespace fs = std::filesystem;
using clock_type = std::chrono::steady_clock;
using words = std::vector<std::string>;

inline constexpr int ranks = 2;             // of a run, unless told otherwise
inline constexpr double deadline = 3;       // seconds, where a test waits for it
inline constexpr double long_deadline = 60; // where nothing may wait for it, on a busy machine

inline double since(clock_type::time_point began) {
  return std::chrono::duration<double>(clock_type::now() - began).count();
}

inline pid_t spawn(words arguments, std::string const& said) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t id = 0;
  REQUIRE(posix_spawnp(&id, pointers[0], &files, nullptr, pointers.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&files);
  return id;
}

/// The letter of a process's state; 0 where there is none any more. One that has ended and was not waited for is gone.
inline char state_of(pid_t id) {
  // No stream: one throws where the process ends while it is read.
  int const file = ::open(("/proc/" + std::to_string(id) + "/stat").c_str(), O_RDONLY);
  char bytes[1024];
  auto const size = file < 0 ? 0 : ::read(file, bytes, sizeof bytes);
  if (file >= 0) ::close(file);
  std::string const text(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
  auto const name_ends = text.rfind(')');
  if (name_ends == std::string::npos || name_ends + 2 >= text.size()) return 0;
  char const state = text[name_ends + 2];
  return state == 'Z' || state == 'X' ? 0 : state;
}

struct outcome {
  bool hung = false;  // a rank was there when its time was over
  double seconds = 0; // from the fault, or from the start, to the end of all ranks but a stopped one
  int status = 0;     // exit status of the launcher, if it was not killed; else -1
  std::string said;

  int times(std::string const& sentence) const {
    int found = 0;
    for (auto at = said.find(sentence); at != said.npos; at = said.find(sentence, at + 1)) ++found;
    return found;
  }
};

inline pid_t number_in(std::string const& path) {
  std::ifstream in(path);
  pid_t id = 0;
  in >> id;
  return id;
}

/// One run, of two ranks unless told otherwise: watched until all of them, but a stopped one, are gone; then nothing of
/// it is left.
class job {
public:
  job(words const& arguments, bool launcher_cleans_up, double seconds, int of_run = ranks)
      : limit_(seconds + 5), files_(scratch_ / "ranks"), said_(scratch_ / "said"),
        ids_(static_cast<std::size_t>(of_run)) {
    fs::create_directory(files_);
    // What Open MPI keeps in files goes with the scratch directory, however its processes end.
    words all{CONSTRAIN_MPIRUN,
              "-n",
              std::to_string(of_run),
              "--oversubscribe",
              "--mca",
              "btl_vader_backing_directory",
              files_,
              "--mca",
              "mpi_yield_when_idle",
              "1"};
    // With this option, the launcher does not stop the other ranks when one ends.
    if (!launcher_cleans_up) all.push_back("--enable-recovery");
    all.push_back(CONSTRAIN_FAILURE_JOB);
    all.push_back("scratch=" + files_);
    all.push_back("deadline=" + std::to_string(seconds));
    all.insert(all.end(), arguments.begin(), arguments.end());
    began_ = clock_type::now();
    launcher_ = spawn(all, said_);
  }

  job(job const&) = delete;
  ~job() { kill_all(); }

  outcome wait() {
    outcome o;
    constexpr double start_limit = 120; // of an undisturbed run, on a busy machine
    auto fault = began_;
    bool faulted = false;
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      int status = 0;
      if (launcher_ > 0 && ::waitpid(launcher_, &status, WNOHANG) == launcher_) launcher_ = 0, o.status = status;
      if (!faulted && fault_began()) faulted = true, fault = clock_type::now();
      o.seconds = since(fault);
      if (all_gone()) break;
      if (o.seconds > (faulted ? limit_ : start_limit)) {
        o.hung = true;
        break;
      }
    }
    end(o);
    o.said = read_file(said_);
    return o;
  }

  /// Stops all ranks, once one of them is asleep and the other waits for it, and wakes them later.
  void stop_for(double seconds) {
    while (!fault_began() && !all_gone()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto const all = [&](int signal) {
      for (auto const id : ids_)
        if (id > 0) ::kill(id, signal);
    };
    all(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    all(SIGCONT);
  }

private:
  std::string rank_file(char const* name, std::size_t rank) const {
    return files_ + "/" + name + "-" + std::to_string(rank);
  }

  bool fault_began() const {
    for (std::size_t rank = 0; rank < ids_.size(); ++rank)
      if (fs::exists(rank_file("fault", rank))) return true;
    return false;
  }
  /// All ranks have begun, or the launcher has ended, and no rank is there that runs.
  bool all_gone() {
    for (std::size_t rank = 0; rank < ids_.size(); ++rank) {
      if (ids_[rank] == 0) ids_[rank] = number_in(rank_file("process", rank));
      if (ids_[rank] == 0 && launcher_ != 0) return false;
      char const state = ids_[rank] == 0 ? 0 : state_of(ids_[rank]);
      if (state != 0 && state != 'T') return false;
    }
    return true;
  }
  void end(outcome& o) {
    auto const asked = clock_type::now();
    while (launcher_ > 0 && since(asked) < 1.5) {
      int status = 0;
      if (::waitpid(launcher_, &status, WNOHANG) == launcher_) launcher_ = 0, o.status = status;
      else std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (launcher_ > 0) o.status = -1;
    kill_all();
  }
  void kill_all() {
    for (auto const id : ids_)
      if (id > 0 && state_of(id) != 0) ::kill(id, SIGKILL);
    if (launcher_ == 0) return;
    ::kill(launcher_, SIGKILL);
    ::waitpid(launcher_, nullptr, 0);
    launcher_ = 0;
  }

  temporary_directory scratch_;
  double limit_;
  std::string files_, said_;
  clock_type::time_point began_;
  pid_t launcher_ = 0;
  std::vector<pid_t> ids_; // of the ranks; 0: not known yet
};

inline int alone(char const* action, std::string const& directory) {
  temporary_directory const scratch;
  auto const id =
      spawn({CONSTRAIN_FAILURE_JOB, std::string("action=") + action, "directory=" + directory}, scratch / "said");
  int status = 0;
  REQUIRE(::waitpid(id, &status, 0) == id);
  return status;
}

/// A run on a directory, with an older checkpoint where `first` is true.
struct disk {
  temporary_directory scratch;
  std::string directory = scratch / "run";

  explicit disk(bool first = true) {
    if (first) REQUIRE(alone("make", directory) == 0);
  }
  outcome run(words arguments, double seconds = long_deadline, bool launcher_cleans_up = false) const {
    arguments.push_back("directory=" + directory);
    return job(arguments, launcher_cleans_up, seconds).wait();
  }
};

} // namespace constrain::test
