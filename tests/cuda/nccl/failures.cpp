#include "../../comm/failure_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// Runs on CUDA devices (failure_job.cpp) in which one rank is killed or stopped (SIGSTOP) at a call to NCCL, without
// the launcher's own clean-up: the others end with a sentence, soon after their deadline.

using namespace constrain::test;

namespace {

struct setting {
  std::string policy;
  int ranks;
};
// zero_2: two groups of two ranks.
std::vector<setting> const settings = {{"ddp", 3}, {"zero_1", 2}, {"zero_2", 4}, {"zero_3", 2}};

struct trial {
  words arguments;
  int ranks, victim;
  outcome came;
};

/// The number of calls to NCCL of each rank in an undisturbed run.
std::vector<long> calls_of(setting const& s) {
  auto const o = job({"policy=" + s.policy}, false, long_deadline, s.ranks).wait();
  CAPTURE(o.said);
  REQUIRE(o.status == 0);
  std::vector<long> calls;
  for (int rank = 0; rank < s.ranks; ++rank) {
    auto const begin = "rank " + std::to_string(rank) + ": ";
    auto const at = o.said.find(begin);
    REQUIRE(at != std::string::npos);
    calls.push_back(std::atol(o.said.c_str() + at + begin.size()));
    CHECK(calls.back() > 20);
  }
  return calls;
}

/// A call at which a rank fails.
struct fault_at {
  int rank;
  long call;
};

/// The first, a middle and a last call; or every call, of the ranks in turn, and the last of each rank.
std::vector<fault_at> faults_of(std::vector<long> const& calls, bool all_calls) {
  auto const ranks = static_cast<int>(calls.size());
  if (!all_calls) return {{0, 1}, {1, calls[1] / 2}, {ranks - 1, calls.back()}};
  std::vector<fault_at> all;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const last = calls[static_cast<std::size_t>(rank)];
    for (long call = 1; call <= last; ++call)
      if (call % ranks == rank || call == last) all.push_back({rank, call});
  }
  return all;
}

} // namespace

TEST_CASE("a rank is killed or stopped at a call to NCCL: the others end at their deadline") {
  bool const all_calls = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr;
  std::vector<trial> all;
  for (auto const& s : settings) {
    auto const calls = calls_of(s);
    MESSAGE(s.policy << " on " << s.ranks << " ranks: " << calls[0] << " calls to NCCL");
    for (auto const& [rank, call] : faults_of(calls, all_calls))
      for (std::string fault : {"kill", "stop"})
        all.push_back(
            {{"policy=" + s.policy, "fault=" + fault, "victim=" + std::to_string(rank), "at=" + std::to_string(call)},
             s.ranks,
             rank,
             {}});
  }
  // They wait most of their time: four at once.
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < all.size(); i = next++)
      all[i].came = job(all[i].arguments, false, deadline, all[i].ranks).wait();
  };
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(work);
  work();
  for (auto& other : others) other.join();
  double slowest = 0;
  int hung = 0;
  for (auto const& t : all) {
    std::string what;
    for (auto const& argument : t.arguments) what += argument + " ";
    CAPTURE(what);
    CAPTURE(t.came.said);
    CHECK(!t.came.hung);
    CHECK(t.came.times("has waited 3") >= 1);
    // Each other rank ends with a sentence, or had done all its calls before.
    for (int rank = 0; rank < t.ranks; ++rank) {
      auto const name = "rank " + std::to_string(rank);
      CAPTURE(name);
      auto const& o = t.came;
      if (rank != t.victim)
        CHECK(o.times(name + " has waited 3") + o.times(name + " threw: ") + o.times(name + ": ") > 0);
    }
    hung += t.came.hung ? 1 : 0;
    slowest = std::max(slowest, t.came.seconds);
  }
  MESSAGE(all.size() << " runs with a fault: " << hung << " hung, the slowest ended " << slowest
                     << " s after its fault");
}
