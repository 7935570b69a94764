#include "../temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Runs of two ranks (failure_job.cpp) in which one fails, is stopped, or is not like the other: every rank ends, with a
// sentence, and the checkpoint stays whole.

namespace fs = std::filesystem;
using ct_directory = constrain::test::temporary_directory;
using constrain::test::read_file;

namespace {

using clock_type = std::chrono::steady_clock;
using words = std::vector<std::string>;

constexpr int ranks = 2;
constexpr double deadline = 3;       // seconds, where a test waits for it
constexpr double long_deadline = 60; // where nothing may wait for it, on a busy machine

double since(clock_type::time_point began) { return std::chrono::duration<double>(clock_type::now() - began).count(); }

pid_t spawn(words arguments, std::string const& said) {
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
char state_of(pid_t id) {
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
  int status = 0;     // of the launcher, where it ended by itself; else -1
  std::string said;

  int times(std::string const& sentence) const {
    int found = 0;
    for (auto at = said.find(sentence); at != said.npos; at = said.find(sentence, at + 1)) ++found;
    return found;
  }
};

pid_t number_in(std::string const& path) {
  std::ifstream in(path);
  pid_t id = 0;
  in >> id;
  return id;
}

/// One run of two ranks: watched until all of them, but a stopped one, are gone; then nothing of it is left.
class job {
public:
  job(words const& arguments, bool launcher_cleans_up, double seconds)
      : limit_(seconds + 5), files_(scratch_ / "ranks"), said_(scratch_ / "said") {
    fs::create_directory(files_);
    // What Open MPI keeps in files goes with the scratch directory, however its processes end.
    words all{CONSTRAIN_MPIRUN,
              "-n",
              std::to_string(ranks),
              "--oversubscribe",
              "--mca",
              "btl_vader_backing_directory",
              files_,
              "--mca",
              "mpi_yield_when_idle",
              "1"};
    // With it the launcher leaves the others alone when one ends.
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
  std::string rank_file(char const* name, int rank) const { return files_ + "/" + name + "-" + std::to_string(rank); }

  bool fault_began() const {
    for (int rank = 0; rank < ranks; ++rank)
      if (fs::exists(rank_file("fault", rank))) return true;
    return false;
  }
  /// All ranks have begun, or the launcher has ended, and no rank is there that runs.
  bool all_gone() {
    for (int rank = 0; rank < ranks; ++rank) {
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

  ct_directory scratch_;
  double limit_;
  std::string files_, said_;
  clock_type::time_point began_;
  pid_t launcher_ = 0;
  pid_t ids_[ranks]{};
};

int alone(char const* action, std::string const& directory) {
  ct_directory const scratch;
  auto const id =
      spawn({CONSTRAIN_FAILURE_JOB, std::string("action=") + action, "directory=" + directory}, scratch / "said");
  int status = 0;
  REQUIRE(::waitpid(id, &status, 0) == id);
  return status;
}

/// A run on a directory, with an older checkpoint where `first` is true.
struct disk {
  ct_directory scratch;
  std::string directory = scratch / "run";

  explicit disk(bool first = true) {
    if (first) REQUIRE(alone("make", directory) == 0);
  }
  outcome run(words arguments, double seconds = long_deadline, bool launcher_cleans_up = false) const {
    arguments.push_back("directory=" + directory);
    return job(arguments, launcher_cleans_up, seconds).wait();
  }
};

char const* const policies[] = {"ddp", "zero"};

/// Every rank threw this sentence, and no other.
void all_threw(outcome const& o, std::string const& sentence) {
  CAPTURE(o.said);
  CHECK(!o.hung);
  CHECK(o.times(sentence) == ranks);
  CHECK(o.times(" threw: ") == ranks);
}

} // namespace

TEST_CASE("a rank whose labels are all ignored adds nothing to the others' batch") {
  for (std::string policy : policies) {
    CAPTURE(policy);
    disk const d(false);
    auto const some = d.run({"policy=" + policy, "action=no_labels", "first=1"});
    CAPTURE(some.said);
    CHECK(some.times("the same numbers") == ranks);
    all_threw(d.run({"policy=" + policy, "action=no_labels", "first=0"}), "step: every label is ignored");
  }
}

TEST_CASE("what fails on one rank is thrown on all, and they may go on") {
  for (std::string policy : policies) {
    CAPTURE(policy);
    disk const d;
    auto const caught = d.run({"policy=" + policy, "action=go_on", "fault=none"});
    CAPTURE(caught.said);
    CHECK(caught.times("caught: rank 0: the directory '/dev/null' cannot be made") == ranks);
    CHECK(caught.times("threw") == 0);
    CHECK(caught.status == 0);
    all_threw(d.run({"policy=" + policy, "action=fit", "fault=unwritable"}),
              "threw: rank 0: the directory '/dev/null' cannot be made");
    all_threw(d.run({"policy=" + policy, "action=resume", "fault=unwritable", "victim=1"}),
              "threw: resume: rank 0 finds a checkpoint in '");
    // What every rank throws is no reason to end the job.
    all_threw(d.run({"policy=" + policy, "action=all_throw"}), "threw: every rank's exception");
  }
}

TEST_CASE("a callback that ends the run on one rank ends it on all") {
  disk const d(false);
  auto const o = d.run({"policy=ddp", "action=one_ends", "victim=1"});
  CAPTURE(o.said);
  CHECK(o.times("ended at step 3") == ranks);
}

TEST_CASE("of a series all ranks take the newest checkpoint that all have, or none") {
  disk const d(false);
  auto const make = [&](std::string const& directory, int step) {
    fs::create_directories(directory);
    REQUIRE(alone("make", directory + "/step-" + std::to_string(step)) == 0);
  };
  make(d.directory, 1), make(d.directory, 3);
  all_threw(d.run({"policy=zero", "action=resume_series", "victim=1"}),
            "threw: resume: rank 0 finds a checkpoint in '");
  auto const other = d.directory + "-other";
  fs::create_directories(other);
  fs::copy(d.directory + "/step-1", other + "/step-1");
  auto const common = d.run({"policy=zero", "action=resume_series", "victim=1"});
  CAPTURE(common.said);
  CHECK(common.times("step-3' is not there for every rank; one before it is taken") == 1);
  CHECK(common.times("resumed at step 1") == ranks);
  // One that is damaged for one rank is taken by none.
  fs::copy(d.directory + "/step-3", other + "/step-3");
  fs::resize_file(other + "/step-3/model.safetensors", 100);
  auto const damaged = d.run({"policy=zero", "action=resume_series", "victim=1"});
  CAPTURE(damaged.said);
  CHECK(damaged.times("were saved; use another copy of the directory; the one before it is taken") == 1);
  CHECK(damaged.times("resumed at step 1") == ranks);
}

TEST_CASE("an exception that one rank has alone ends the job, and is said first") {
  for (bool cleans_up : {false, true}) {
    disk const d;
    auto const o = d.run({"policy=zero", "action=fit", "fault=exception", "victim=1", "at=3"}, deadline, cleans_up);
    CAPTURE(o.said);
    CHECK(!o.hung);
    CHECK(o.times("rank 1 failed in fit, and the others did not, so the job ends: the user's own exception") == 1);
    // Without the launcher's help the others may only learn of it at their deadline.
    CHECK(o.said.find("rank 1 failed") < o.said.find("has waited"));
    if (cleans_up) CHECK(o.times("has waited") == 0);
    auto const own = d.run({"policy=ddp", "action=step", "fault=exception", "victim=0", "at=3"}, deadline, cleans_up);
    CAPTURE(own.said);
    CHECK(!own.hung);
    CHECK(own.times("rank 0 threw: the user's own exception") == 1);
  }
}

TEST_CASE("an exception of one rank is its own, whatever all ranks have caught before") {
  disk const d;
  auto const o = d.run({"policy=ddp", "action=caught_before", "fault=exception", "victim=0", "at=1"}, deadline, true);
  CAPTURE(o.said);
  CHECK(!o.hung);
  CHECK(o.times("rank 0 failed in fit, and the others did not, so the job ends: the user's own exception") == 1);
}

TEST_CASE("a peer that is stopped, or ends before the others, is given up at the deadline") {
  disk const d;
  auto const stopped = d.run({"policy=ddp", "action=fit", "fault=stop", "victim=0", "at=3", "after=0"}, deadline);
  CAPTURE(stopped.said);
  CHECK(!stopped.hung);
  CHECK(stopped.times("rank 1 has waited 3") == 1);
  CHECK(stopped.times("s for the other ranks (") == 1);
  auto const ended = d.run({"policy=zero", "action=step", "fault=exit", "victim=1", "at=3"}, deadline);
  CAPTURE(ended.said);
  CHECK(!ended.hung);
  CHECK(ended.times("rank 0 has waited 3") == 1);
  CHECK(ended.times("(step: gathering)") == 1);
}

TEST_CASE("a run that was stopped as a whole goes on: nobody is blamed for that time") {
  disk const d;
  job stopped(
      {"policy=ddp", "action=step", "fault=sleep", "victim=1", "at=3", "after=1000000", "directory=" + d.directory},
      false, deadline);
  stopped.stop_for(deadline + 1);
  auto const o = stopped.wait();
  CAPTURE(o.said);
  CHECK(o.status == 0);
  CHECK(o.times("has waited") == 0);
}

TEST_CASE("ranks that do not agree are told which field, and both values") {
  struct row {
    char const *policy, *action, *field, *sentence;
  };
  row const rows[] = {
      {"ddp", "fit", "seed", "threw: the ranks do not agree: .seed is 1 on rank 0 and 2 on rank 1; start all"},
      {"zero", "step", "seed", "threw: the ranks do not agree: .seed is 1 on rank 0 and 2 on rank 1; start all"},
      {"ddp", "step", "learning_rate",
       "threw: the ranks do not agree: .learning_rate of the optimizer is 0.01 on rank 0 and 0.1 on rank 1;"},
      {"ddp", "step", "beta2",
       "threw: the ranks do not agree: .beta2 of the optimizer is 0.999 on rank 0 and 0.5 on rank 1"},
      {"zero", "step", "schedule",
       "threw: the ranks do not agree: the kind of .schedule is constant on rank 0 and cosine on rank 1"},
      {"zero", "fit", "corpus", "threw: the ranks do not agree: the fingerprint of the corpus is "},
      {"ddp", "fit", "steps", "threw: the ranks do not agree: .steps is 12 on rank 0 and 13 on rank 1"},
      {"zero", "step", "deadline",
       "threw: rank 1: a run's .deadline is -1.000000 seconds; give more than 0 and at most 1e9"},
      {"ddp", "step", "corpus", "threw: step: rank 0 has other data than rank 1 (fingerprints "},
      {"zero", "step", "steps", "threw: the ranks make different calls: rank 0 is in save and rank 1 in step; let"},
  };
  disk const d;
  for (auto const& r : rows) {
    CAPTURE(r.field);
    all_threw(d.run({std::string("policy=") + r.policy, std::string("action=") + r.action, "fault=disagree", "victim=1",
                     std::string("field=") + r.field}),
              r.sentence);
  }
}

TEST_CASE("failures drawn at random: no rank hangs, the checkpoint stays whole") {
  int const trials = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr ? 200 : 20;
  std::mt19937 random(12);
  auto const draw = [&](auto const& from) { return std::string(from[random() % std::size(from)]); };
  char const* const actions[] = {"save", "fit", "resume", "step", "evaluate"};
  char const* const faults[] = {"exception", "full", "unwritable", "kill", "stop", "disagree"};
  char const* const fields[] = {"seed",     "learning_rate", "beta2", "dropout",  "clip_norm",
                                "schedule", "corpus",        "steps", "directory"};
  struct trial {
    words arguments;
    bool cleans_up = false, whole = false;
    outcome came;
  };
  std::vector<trial> all(static_cast<std::size_t>(trials));
  for (auto& t : all) {
    auto const fault = draw(faults), action = draw(actions);
    t.cleans_up = random() % 4 == 0;
    t.arguments = {"policy=" + draw(policies),
                   "action=" + action,
                   "fault=" + fault,
                   "field=" + draw(fields),
                   "victim=" + std::to_string(fault == "full" ? 0 : random() % ranks), // rank 0 writes
                   "at=" + std::to_string(action == "resume" ? 1 : 1 + random() % 4),
                   "after=" + std::to_string(random() % 20000),
                   "bytes=" + std::to_string(random() % 8000)};
  }
  // They wait most of their time: two at once.
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < all.size(); i = next++) {
      disk const d;
      all[i].came = d.run(all[i].arguments, deadline, all[i].cleans_up);
      all[i].whole = alone("check", d.directory) == 0;
    }
  };
  std::thread other(work);
  work();
  other.join();
  int hung = 0, spoiled = 0, undisturbed = 0;
  double slowest = 0;
  for (auto const& t : all) {
    std::string what;
    for (auto const& argument : t.arguments) what += argument + " ";
    CAPTURE(what);
    CAPTURE(t.came.said);
    CHECK(!t.came.hung);
    CHECK(t.whole);
    hung += t.came.hung, spoiled += !t.whole, undisturbed += t.came.status == 0 && t.came.said.empty();
    slowest = std::max(slowest, t.came.seconds);
  }
  MESSAGE(trials << " trials: " << hung << " hung, " << spoiled << " spoiled a checkpoint, " << undisturbed
                 << " came to their end all the same, the slowest " << slowest << " s after its fault");
}
