#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

// crash.job DIRECTORY STEPS: takes up the run saved there, trains to that step and saves after every one.

namespace ct = constrain;

int main(int, char** argv) try {
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 256, .context = 4}, ct::causal_lm,
                        ct::micro_batch{.sequences = 2}>;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i * 37 % 251);
  ct::trainer<task> t;
  t.resume(argv[1]);
  ct::fit(t, ct::data::text_from(text),
          {.steps = std::atoll(argv[2]), .directory = argv[1], .save_every = 1, .log = nullptr});
} catch (ct::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 3;
}
