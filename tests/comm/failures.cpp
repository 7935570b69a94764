#include "failure_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

// Runs of two ranks (failure_job.cpp) in which one fails, is stopped, or is not like the other: every rank ends, with a
// sentence, and the checkpoint stays whole.

using namespace constrain::test;

namespace {

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
    CHECK(caught.times("caught: rank 0: '/dev/null' cannot be created as a directory") == ranks);
    CHECK(caught.times("threw") == 0);
    CHECK(caught.status == 0);
    all_threw(d.run({"policy=" + policy, "action=fit", "fault=unwritable"}),
              "threw: rank 0: '/dev/null' cannot be created as a directory");
    all_threw(d.run({"policy=" + policy, "action=resume", "fault=unwritable", "victim=1"}),
              "threw: resume: rank 0 finds a saved run in '");
    all_threw(d.run({"policy=" + policy, "action=load_best", "victim=1"}),
              "threw: fit: rank 0 finds a saved run in 'best', but rank 1 does not; give all ranks a directory that");
    // An error that every rank throws does not end the job.
    all_threw(d.run({"policy=" + policy, "action=all_throw"}), "threw: every rank's exception");
    all_threw(d.run({"policy=" + policy, "action=caught_before", "fault=rethrow", "victim=all"}),
              "threw: rank 0: '/dev/null' cannot be created as a directory");
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
  all_threw(d.run({"policy=zero", "action=resume_series", "victim=1"}), "threw: resume: rank 0 finds a saved run in '");
  auto const other = d.directory + "-other";
  fs::create_directories(other);
  fs::copy(d.directory + "/step-1", other + "/step-1");
  auto const common = d.run({"policy=zero", "action=resume_series", "victim=1"});
  CAPTURE(common.said);
  CHECK(common.times("step-3'; an older saved run is tried") == 1);
  CHECK(common.times("resumed at step 1") == ranks);
  // One that is damaged for one rank is taken by none.
  fs::copy(d.directory + "/step-3", other + "/step-3");
  fs::resize_file(other + "/step-3/model.safetensors", 100);
  auto const damaged = d.run({"policy=zero", "action=resume_series", "victim=1"});
  CAPTURE(damaged.said);
  CHECK(damaged.times("; use another copy of the directory; the next older saved run is tried") == 1);
  CHECK(damaged.times("resumed at step 1") == ranks);
}

TEST_CASE("copies of pretrained weights are equal, or all ranks refuse them") {
  disk const d;
  auto const other = d.directory + "-other", file = other + "/model.safetensors";
  fs::copy(d.directory, other);
  auto const equal = d.run({"policy=ddp", "action=pretrained", "victim=1"});
  CAPTURE(equal.said);
  CHECK(equal.times("loaded") == ranks);
  std::fstream content(file, std::ios::in | std::ios::out | std::ios::binary);
  content.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
  content.put('?');
  content.close();
  for (std::string policy : policies)
    all_threw(d.run({"policy=" + policy, "action=pretrained", "victim=1"}),
              "threw: load_pretrained: rank 0 and rank 1 read different files; give all ranks the same path on");
}

TEST_CASE("a forward pass of several ranks that fails on one is refused by all, or ends the job") {
  disk const d;
  char const* const refused[][2] = {{"prompt", "generate: the prompt is empty"},
                                    {"inputs", "predict: "},
                                    {"labels", "evaluate: "},
                                    {"corpus", "evaluate: "},
                                    {"ignored", "evaluate: every label is ignored, so there is no loss; pass at"},
                                    {"prompts", "evaluate: every label is ignored, so there is no loss; pass at"}};
  for (auto const& [field, sentence] : refused)
    all_threw(d.run({"policy=zero", "action=forward", "victim=1", std::string("field=") + field}),
              std::string("threw: rank 1: ") + sentence);
  auto const stopped = [&](char const* policy) {
    return d.run({policy, "action=forward", "fault=exception", "victim=1", "at=5"}, long_deadline, true);
  };
  auto const together = stopped("policy=zero");
  CAPTURE(together.said);
  CHECK(!together.hung);
  CHECK(together.times("rank 1 failed in evaluate, but not every rank did, so the job ends: the user's own") == 1);
  CHECK(together.times("has waited") == 0);
  // With `ddp`, no rank takes part in another's evaluation: the exception is thrown on its rank.
  auto const apart = stopped("policy=ddp");
  CAPTURE(apart.said);
  CHECK(apart.times("rank 1 threw: the user's own exception") == 1);
}

TEST_CASE("an exception that one rank has alone ends the job, and is said first") {
  for (bool cleans_up : {false, true}) {
    disk const d;
    auto const o = d.run({"policy=zero", "action=fit", "fault=exception", "victim=1", "at=3"}, deadline, cleans_up);
    CAPTURE(o.said);
    CHECK(!o.hung);
    CHECK(o.times("rank 1 failed in fit, but not every rank did, so the job ends: the user's own exception") == 1);
    // Without the launcher's help the others may only learn of it at their deadline.
    CHECK(o.said.find("rank 1 failed") < o.said.find("has waited"));
    if (cleans_up) CHECK(o.times("has waited") == 0);
    auto const own = d.run({"policy=ddp", "action=step", "fault=exception", "victim=0", "at=3"}, deadline, cleans_up);
    CAPTURE(own.said);
    CHECK(!own.hung);
    CHECK(own.times("rank 0 threw: the user's own exception") == 1);
  }
  disk const d;
  auto const silent = d.run({"policy=ddp", "action=fit", "fault=no_message", "victim=1", "at=1"}, deadline, true);
  CAPTURE(silent.said);
  CHECK(silent.times("so the job ends: an exception without a message\n") == 1);
}

TEST_CASE("an exception that one rank has alone in the training of a comparison ends the job") {
  disk const d(false);
  auto const o = d.run({"policy=ddp", "action=compare", "fault=exception", "victim=1", "at=1"}, long_deadline, true);
  CAPTURE(o.said);
  CHECK(!o.hung);
  CHECK(o.times("rank 1 failed in compare, but not every rank did, so the job ends: the user's own exception") == 1);
  CHECK(o.times("has waited") == 0);
}

TEST_CASE("an exception of one rank is its own, whatever all ranks have caught before") {
  disk const d;
  auto const o = d.run({"policy=ddp", "action=caught_before", "fault=exception", "victim=0", "at=1"}, deadline, true);
  CAPTURE(o.said);
  CHECK(!o.hung);
  CHECK(o.times("rank 0 failed in fit, but not every rank did, so the job ends: the user's own exception") == 1);
  // The error of all ranks is one rank's own where only that rank lets it out of a callback, or of `stop`.
  for (std::string action : {"caught_before", "forward"}) {
    auto const again = d.run({"policy=zero", "action=" + action, "fault=rethrow", "victim=1"}, long_deadline, true);
    CAPTURE(again.said);
    CHECK(!again.hung);
    CHECK(again.times("rank 1 failed in ") == 1);
    CHECK(again.times("but not every rank did, so the job ends: rank 0: '/dev/null' cannot be created") == 1);
    CHECK(again.times("has waited") == 0);
  }
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

TEST_CASE("a rank that fails when the others exit, and goes on, ends with them") {
  disk const d(false);
  for (std::string policy : policies) {
    CAPTURE(policy);
    auto const o = d.run({"policy=" + policy, "action=no_summary"});
    CAPTURE(o.said);
    CHECK(!o.hung);
    CHECK(o.times("rank 0 caught: ") == 1);
    CHECK(o.times("summary.json") == 1);
    CHECK(o.status == 0);
    CHECK(o.times("has waited") == 0);
  }
}

TEST_CASE("ranks that fail when others exit may fail again, and none waits for the deadline") {
  for (std::string then : {"exit", "throw", "wait"}) {
    CAPTURE(then);
    auto const o = job({"policy=ddp", "action=some_fail", "then=" + then}, true, long_deadline, 4).wait();
    CAPTURE(o.said);
    CHECK(!o.hung);
    CHECK(o.times("has waited") == 0);
    CHECK(o.times("rank 1 caught: a failure of some") == 1);
    CHECK(o.times("rank 0 caught: a failure of some") == (then == "wait" ? 1 : 2));
    CHECK(o.times("rank 1 threw: another failure") == (then == "throw" ? 1 : 0));
    // Rank 1 waits for rank 0, which then fails alone.
    CHECK(o.times("rank 0 failed in save, but not every rank did, so the job ends") == (then == "wait" ? 1 : 0));
    if (then != "exit") CHECK(o.status != 0);
  }
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
      {"ddp", "step", "empty_schedule", "threw: run_options: .schedule is an empty function; give a function that"},
      {"zero", "fit", "corpus", "threw: the ranks do not agree: the fingerprint of the corpus is "},
      {"ddp", "fit", "steps", "threw: the ranks do not agree: .steps is 12 on rank 0 and 13 on rank 1"},
      {"ddp", "scale", "factor",
       "threw: the ranks do not agree: the factor of scale_learning_rate is 0.25 on rank 0 and 0.5 on rank 1; pass "
       "the same factor on all ranks"},
      {"ddp", "compare", "tokens",
       "threw: the ranks do not agree: .tokens of compare_options is 200 on rank 0 and 100 on rank 1; start all"},
      {"ddp", "compare", "validation_fraction",
       "threw: the ranks do not agree: .validation_fraction of compare_options is 0.02 on rank 0 and 0.25 on rank 1;"},
      {"zero", "compare", "validation_tokens",
       "threw: the ranks do not agree: .validation_tokens of compare_options is 16384 on rank 0 and 7 on rank 1;"},
      {"ddp", "compare", "compared_corpus", "threw: the ranks do not agree: the fingerprint of the training data is "},
      {"ddp", "compare", "no_tokens", "threw: rank 1: compare_options: .tokens is 0; give an integer of at least 1"},
      {"zero", "compare", "length", "threw: rank 1: compare: the corpus "},
      {"zero", "compare", "row", "threw: compare, row 'own': rank 1: adamw: .learning_rate is -1; give a finite"},
      {"zero", "step", "deadline",
       "threw: rank 1: run_options: .deadline is -1 seconds; give more than 0 and at most 1e9"},
      {"ddp", "step", "corpus",
       "threw: step: the batches of rank 0 and rank 1 come from different data sets, or from different positions in"},
      {"zero", "step", "position",
       "threw: step: the batches of rank 0 and rank 1 come from different data sets, or from different positions in"},
      {"zero", "step", "steps", "threw: the ranks make different calls: rank 0 is in save and rank 1 in step; make"},
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
