// A rank of a run in which one rank fails: started by failures.cpp through mpirun, with NAME=VALUE arguments.

#include <constrain/constrain.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 256, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using alone = ct::trainer<task>;

std::map<std::string, std::string> given;
std::string const& word(std::string const& name) { return given[name]; }
long number(std::string const& name) { return std::atol(given[name].c_str()); }
bool is(char const* name, char const* value) { return given[name] == value; }

int rank_of_job() { return std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")); }
/// Whether this rank is the one that fails.
bool victim() { return rank_of_job() == number("victim"); }
std::string in_scratch(char const* name) { return word("scratch") + "/" + name + "-" + std::to_string(rank_of_job()); }

ct::data::corpus text(int from) {
  std::string all;
  for (int i = 0; i < 400; ++i) all += static_cast<char>((i + from) * 37 % 251);
  return ct::data::text_from(all);
}

/// The victim's failure, at its `at`-th call.
void fail_here() {
  static long calls = 0;
  if (!victim() || ++calls != number("at")) return;
  std::ofstream(in_scratch("fault")) << "now\n";
  auto const after = std::chrono::microseconds(number("after"));
  auto const raise_later = [&](int signal) {
    std::thread([=] {
      std::this_thread::sleep_for(after);
      ::kill(::getpid(), signal);
    }).detach();
  };
  if (is("fault", "exception")) throw std::runtime_error("the user's own exception");
  if (is("fault", "no_message")) throw std::runtime_error("");
  if (is("fault", "kill")) raise_later(SIGKILL);
  if (is("fault", "stop")) raise_later(SIGSTOP);
  if (is("fault", "exit")) std::exit(0);
  if (is("fault", "sleep")) std::this_thread::sleep_for(after);
  if (is("fault", "full")) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{static_cast<rlim_t>(number("bytes")), RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
}

bool disagrees(char const* field) { return victim() && is("fault", "disagree") && is("field", field); }

std::string directory() {
  if (is("fault", "unwritable") && !is("action", "resume")) return "/dev/null/run";
  if (is("fault", "unwritable") && victim()) return word("directory") + "-elsewhere";
  return disagrees("directory") ? word("directory") + "-other" : word("directory");
}

template <class trainer> void own_steps(trainer& t, int steps) {
  auto const corpus = text(disagrees("corpus") ? 1 : 0);
  int done = 0;
  auto batches = t.batches(corpus);
  if (disagrees("position")) batches.begin(); // skips a batch
  for (auto const& batch : batches) {
    if (done++ == steps + (disagrees("steps") ? 1 : 0)) break;
    fail_here();
    t.step(batch);
  }
}

/// Batch of 8 tokens whose labels are all ignored on the ranks from `first` on.
template <class trainer> ct::step_result step_without_labels(trainer& t, int first) {
  std::vector<std::int32_t> const inputs{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::int32_t> labels{2, 3, 4, 5, 6, ct::ignored_label, 8, 9};
  if (rank_of_job() >= first) labels.assign(8, ct::ignored_label);
  return t.step(t.batch(inputs, labels));
}

template <class trainer> void fit_with_failures(trainer& t) {
  auto const corpus = text(disagrees("corpus") ? 1 : 0);
  ct::fit(t, corpus,
          {.steps = disagrees("steps") ? 13 : 12,
           .validation = &corpus,
           .evaluate_every = 2,
           .directory = directory(),
           .save_every = 1,
           .log = nullptr},
          [](ct::step_result const&) { fail_here(); });
}

template <class trainer> void resume_series(trainer& t) {
  t.resume(victim() ? word("directory") + "-other" : word("directory"));
  std::fprintf(stderr, "resumed at step %lld\n", static_cast<long long>(t.steps().count()));
}

template <class trainer> void step_with_ignored_labels(trainer& t) {
  if (number("first") != 1) {
    step_without_labels(t, 0);
    return;
  }
  alone one{{.learning_rate = 1e-2f}};
  std::vector<std::int32_t> const inputs{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::int32_t> const labels{2, 3, 4, 5, 6, ct::ignored_label, 8, 9};
  auto const expected = one.step(one.batch(inputs, labels));
  auto const r = step_without_labels(t, 1);
  bool const same = r.tokens == 7 && std::abs(r.loss - expected.loss) < 1e-12 &&
                    std::abs(r.gradient_norm - expected.gradient_norm) < 1e-6;
  std::fprintf(stderr, "%s: loss %.17g and %.17g\n", same ? "the same numbers" : "other numbers", r.loss,
               expected.loss);
}

template <class trainer> void end_on_one_rank(trainer& t) {
  auto const corpus = text(0);
  auto const r = ct::fit(t, corpus, {.steps = 9, .log = nullptr},
                         [&](ct::step_result const&) { return !victim() || t.steps() < 3; });
  std::fprintf(stderr, "ended at step %lld\n", static_cast<long long>(r.steps.count()));
}

/// An error of all ranks, which is caught, except on the victim if it is to rethrow it.
template <class trainer> void fail_together(trainer& t) {
  try {
    t.save("/dev/null/run");
  } catch (ct::error const&) {
    if (is("fault", "rethrow") && (victim() || is("victim", "all"))) throw;
  }
}

/// Calls that may fail, before a save.
template <class trainer> void act_before_saving(trainer& t) {
  if (is("action", "resume")) {
    fail_here();
    t.resume(directory());
  }
  if (is("action", "scale")) t.scale_learning_rate(disagrees("factor") ? 0.5 : 0.25);
  if (is("action", "step")) own_steps(t, 8);
  if (is("action", "evaluate"))
    for (int i = 0; i < 4; ++i) {
      fail_here();
      t.evaluate(text(disagrees("corpus") ? 1 : 0));
    }
  if (is("action", "go_on")) { // every rank catches the failed save, and the run continues
    try {
      t.save("/dev/null/run");
    } catch (ct::error const& e) { std::fprintf(stderr, "caught: %s\n", e.what()); }
    step_without_labels(t, 2);
  }
  if (is("action", "all_throw")) {
    auto const corpus = text(0);
    ct::fit(t, corpus, {.steps = 3, .log = nullptr},
            [](ct::step_result const&) { throw std::runtime_error("every rank's exception"); });
  }
  if (is("action", "caught_before")) { // an error of all is caught, and then one rank has its own
    auto const corpus = text(0);
    ct::fit(t, corpus, {.steps = 3, .log = nullptr}, [&](ct::step_result const&) {
      fail_together(t);
      fail_here();
    });
  }
}

/// Says what `f` throws, and goes on.
void caught(std::function<void()> const& f) {
  try {
    f();
  } catch (std::exception const& e) { std::fprintf(stderr, "rank %d caught: %s\n", rank_of_job(), e.what()); }
}

/// A run whose summary cannot be written: rank 0 fails when the other ranks have returned from `fit`.
template <class trainer> void fit_without_a_summary(trainer& t) {
  auto const corpus = text(0);
  auto const records = word("scratch") + "/records";
  caught([&] {
    ct::fit(t, corpus, {.steps = 3, .log = nullptr, .records = records}, [&](ct::step_result const&) {
      if (rank_of_job() == 0) std::filesystem::create_directories(records + "/summary.json/in");
    });
  });
}

/// A run whose best weights are in the scratch directory, which the victim does not see.
template <class trainer> void load_best_of_some(trainer& t) {
  auto const elsewhere = in_scratch("elsewhere");
  std::filesystem::create_directories(elsewhere);
  std::filesystem::current_path(victim() ? elsewhere : word("scratch"));
  auto const corpus = text(0);
  ct::fit(t, corpus, {.steps = 2, .validation = &corpus, .log = nullptr, .best = "best", .load_best = true});
}

/// Weights that are no saved run: the victim has its own copy.
template <class trainer> void load_own_copies(trainer& t) {
  t.load_pretrained(word("directory") + (victim() ? "-other" : "") + "/model.safetensors");
  std::fprintf(stderr, "loaded\n");
}

/// A forward pass of which the victim gives other arguments than the other rank, or fails in the midst.
template <class trainer> void pass_forward(trainer& t) {
  auto corpus = victim() && is("field", "corpus") ? ct::data::text_from("ab") : text(0);
  if (victim() && is("field", "prompts")) // no token to predict
    corpus = ct::data::corpus::from_bytes(std::string(400, 'a'), std::vector<bool>(400, true));
  if (is("field", "prompt")) t.generate(victim() ? "" : "abc", 3);
  else if (is("field", "inputs")) t.predict(std::vector<std::int32_t>(victim() ? 7 : 8, 1));
  else if (is("field", "labels"))
    t.evaluate(std::vector<std::int32_t>(8, 1), std::vector<std::int32_t>(8, victim() ? 256 : 2));
  else if (is("field", "ignored"))
    t.evaluate(std::vector<std::int32_t>(8, 1), std::vector<std::int32_t>(8, victim() ? ct::ignored_label : 2));
  else t.evaluate(corpus, [&] { return is("fault", "rethrow") ? fail_together(t) : fail_here(), false; });
}

/// A metric whose computation fails.
struct failing_metric {
  static constexpr char const* name = "failing";
  static double of(ct::class_counts const&) { return fail_here(), 0.0; }
};
struct causal_lm_with_metric : ct::causal_lm {
  using metrics = ct::metrics<failing_metric>;
};
using compared = ct::task<task::architecture, causal_lm_with_metric, ct::micro_batch{.sequences = 2}>;

/// A comparison of two rows, both with the trainer's policies, so that a rank waits for one that fails in the first.
template <class policies> void compare_rows() {
  auto const corpus = disagrees("length") ? ct::data::text_from("abc") : text(disagrees("compared_corpus") ? 1 : 0);
  ct::compare_options options{.tokens = disagrees("tokens") ? 100 : disagrees("no_tokens") ? 0 : 200};
  if (disagrees("validation_fraction")) options.validation_fraction = 0.25;
  if (disagrees("validation_tokens")) options.validation_tokens = 7;
  if (!is("field", "row")) return void(ct::compare<compared, policies, policies>(corpus, options));
  ct::strategy<policies> row{.name = "own"};
  if (victim()) row.hyper.learning_rate = -1;
  ct::compare<compared>(corpus, options, row);
}

/// Ranks 0 and 1 fail, while the others exit, and go on: rank 0 fails again, and rank 1 does what `then` says.
template <class trainer> void fail_while_others_exit(trainer& t) {
  auto const fail = [&] {
    ct::run_or_end_job(t.world(), ct::joint_call::save, [] { throw std::runtime_error("a failure of some"); });
  };
  if (rank_of_job() > 1) return;
  caught(fail);
  if (rank_of_job() == 0) caught(fail);
  else if (is("then", "throw")) throw std::runtime_error("another failure");
  else if (is("then", "wait")) t.world().barrier();
}

template <class trainer> void act(trainer& t) {
  if (is("action", "fit")) return fit_with_failures(t);
  if (is("action", "resume_series")) return resume_series(t);
  if (is("action", "no_labels")) return step_with_ignored_labels(t);
  if (is("action", "one_ends")) return end_on_one_rank(t);
  if (is("action", "no_summary")) return fit_without_a_summary(t);
  if (is("action", "load_best")) return load_best_of_some(t);
  if (is("action", "pretrained")) return load_own_copies(t);
  if (is("action", "compare")) return compare_rows<typename trainer::policy_set>();
  if (is("action", "forward")) return pass_forward(t);
  if (is("action", "some_fail")) return fail_while_others_exit(t);
  act_before_saving(t);
  for (int i = 0; i < (is("action", "save") ? 4 : 1); ++i) {
    if (is("action", "save")) fail_here();
    t.save(directory());
  }
}

template <class trainer> void run() {
  typename trainer::hyper h{.learning_rate = disagrees("learning_rate") ? 1e-1f : 1e-2f};
  if (disagrees("beta2")) h.beta2 = 0.5f;
  ct::run_options run{.seed = disagrees("seed") ? 2u : 1u, .deadline = std::atof(word("deadline").c_str())};
  if (disagrees("dropout")) run.dropout = 0.5;
  if (disagrees("clip_norm")) run.clip_norm = 1;
  if (is("field", "empty_schedule")) run.schedule = std::function<double(ct::optimizer_steps)>{};
  if (disagrees("schedule")) run.schedule = ct::schedule::cosine{.warmup = 2, .steps = 100};
  if (is("action", "no_labels")) run.seed = 0;
  if (disagrees("deadline")) run.deadline = -1;
  trainer t{h, run};
  act(t);
}

} // namespace

int main(int count, char** arguments) try {
  for (int i = 1; i < count; ++i) {
    std::string const argument = arguments[i];
    auto const equals = argument.find('=');
    given[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  if (is("action", "make") || is("action", "check")) { // one process
    alone t{{.learning_rate = 1e-2f}, {.seed = 1}};
    if (is("action", "check")) t.load(word("directory"));
    else t.step(t.batch(std::vector<std::int32_t>(8, 1), std::vector<std::int32_t>(8, 2)));
    if (is("action", "make")) t.save(word("directory"));
    return 0;
  }
  std::ofstream(in_scratch("process")) << ::getpid() << "\n";
  ct::mpi const started(std::atof(word("deadline").c_str()));
  if (is("fault", "disagree") || is("fault", "unwritable")) std::ofstream(in_scratch("fault")) << "from the start\n";
  if (is("policy", "zero")) run<ct::trainer<task, ct::parallel::zero<3, 2>>>();
  else run<ct::trainer<task, ct::parallel::ddp>>();
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "rank %d threw: %s\n", rank_of_job(), e.what());
  return 3;
}
