// fit in several processes: started by mpirun with 1 to 4 of them. Every rank checks; the exit code tells.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 4, .vocabulary = 256, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task, ct::parallel::ddp>;

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

struct hooks {
  int rank, stops_on; // the only rank that asks for the end, in its third step
  int starts = 0, steps = 0, evaluations = 0, saves = 0, ends = 0;

  void on_start(ct::fit_context&) { ++starts; }
  void on_step(ct::fit_context& c) {
    ++steps;
    c.metric("rank", rank);
    if (rank == stops_on && c.step == 3) c.stop();
  }
  void on_evaluation(ct::fit_context&) { ++evaluations; }
  void on_save(ct::fit_context&) { ++saves; }
  void on_end(ct::fit_context& c) { ends += c.result.stop_reason == ct::stop_reason::by_callback; }
};

ct::data::corpus corpus() {
  std::string text(25 * 4 + 1, 'x'); // 25 samples
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 200);
  return ct::data::corpus::from_bytes(text);
}

} // namespace

int main() {
  auto const text = corpus();
  trainer t;
  auto const ranks = t.ranks();
  std::string const directory = "fit-in-" + std::to_string(ranks);

  // One process asks: all end, after the same step.
  hooks h{t.rank(), ranks - 1};
  auto const r = ct::fit(t, text,
                         {.steps = 9,
                          .validation = &text,
                          .directory = directory + "/run",
                          .log = nullptr,
                          .records = directory + "-records"},
                         h);
  check(r.stop_reason == ct::stop_reason::by_callback && r.steps == 3,
        "the last process asks for the end, and not all end there");
  check(h.starts == 1 && h.steps == 3 && h.evaluations == 1 && h.saves == 1 && h.ends == 1,
        "a callback is not called in every process");
  check(r.labels_per_second == r.tokens_per_second, "tokens are counted of some processes, labels of others");

  // A callback in only one process, which returns false.
  auto const once = [&](auto&& given) {
    trainer u;
    return (u.rank() == 0 ? ct::fit(u, text, {.steps = 5, .log = nullptr}, given)
                          : ct::fit(u, text, {.steps = 5, .log = nullptr}))
        .steps.count();
  };
  check(once([](ct::step_result const&) { return false; }) == 1,
        "a callback of one process that returns false does not end all");

  // An epoch is all processes' samples together.
  trainer e;
  auto const epochs = ct::fit(e, text, {.epochs = 2, .log = nullptr}).steps.count();
  auto const a_step = 2 * ranks;
  check(epochs == (50 + a_step - 1) / a_step, "two epochs of 25 samples are " + std::to_string(epochs) + " steps");
  if (t.rank() == 0 && failures == 0) std::printf("%d ranks: all checks hold\n", ranks);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
