#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

// crash.interrupted.job DIRECTORY STEPS: takes up the run saved there and trains to that step. Says which
// process it is, and every step. Built once for each GEMM provider, and with MPI.

namespace ct = constrain;

#if defined(CONSTRAIN_WITH_MPI)
using parallelism = ct::parallel::ddp;
#else
using parallelism = ct::parallel::none;
#endif

int main(int, char** argv) try {
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 160, .vocabulary = 256, .context = 64},
                        ct::causal_lm, ct::micro_batch{.sequences = 3}>;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>(i * 37 % 251);
  ct::trainer<task, parallelism> t;
  t.resume(argv[1]);
  std::printf("process %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  auto const say = [](ct::step_result const&) { std::puts("trained"), std::fflush(stdout); };
  auto const result = ct::fit(t, ct::data::text_from(text), {.steps = std::atoll(argv[2]), .directory = argv[1]}, say);
  return result.stop_reason == ct::stop_reason::interrupted || result.stop_reason == ct::stop_reason::all_steps ? 0 : 4;
} catch (ct::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 3;
}
