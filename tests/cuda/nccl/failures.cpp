#include "../../comm/failure_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// Runs of two ranks on CUDA devices (failure_job.cpp) in which one rank is killed or stopped (SIGSTOP) at a call to
// NCCL, without the launcher's own clean-up: the other ends with a sentence, soon after its deadline.

using namespace constrain::test;

namespace {

struct trial {
  words arguments;
  outcome came;
};

/// The number of calls to NCCL of a rank in an undisturbed run.
long calls_of(std::string const& policy) {
  auto const o = job({"policy=" + policy}, false, long_deadline).wait();
  CAPTURE(o.said);
  REQUIRE(o.status == 0);
  auto const at = o.said.find("rank 0: ");
  REQUIRE(at != std::string::npos);
  return std::atol(o.said.c_str() + at + 8);
}

} // namespace

TEST_CASE("a rank is killed or stopped at a call to NCCL: the other ends at its deadline") {
  bool const all_calls = std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr;
  std::vector<trial> all;
  for (std::string policy : {"ddp", "zero"}) {
    auto const calls = calls_of(policy);
    MESSAGE(policy << ": " << calls << " calls to NCCL");
    CHECK(calls > 20);
    auto const step = all_calls ? 1 : calls / 4;
    for (long at = 1; at < calls; at += step) // rank 0 makes one call more than rank 1
      for (std::string fault : {"kill", "stop"})
        all.push_back(
            {{"policy=" + policy, "fault=" + fault, "victim=" + std::to_string(at % 2), "at=" + std::to_string(at)},
             {}});
  }
  // They wait most of their time: four at once.
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < all.size(); i = next++) all[i].came = job(all[i].arguments, false, deadline).wait();
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
    hung += t.came.hung ? 1 : 0;
    slowest = std::max(slowest, t.came.seconds);
  }
  MESSAGE(all.size() << " runs with a fault: " << hung << " hung, the slowest ended " << slowest
                     << " s after its fault");
}
