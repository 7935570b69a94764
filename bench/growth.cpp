// Measures how the time of a step grows with layers, width and tokens, and the executor's time per call.

#include "measure.hpp"
#include "step_of_plan.hpp"

#include <constrain/io/json_writer.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace own {

/// An op that does nothing, so that all measured time is the executor's.
struct nothing {
  static constexpr char const* name = "nothing";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.add(0, b.gradient()); }
};

} // namespace own

template <> struct constrain::kernel<own::nothing, ct::cpu> {
  template <class... operands> static void run(ct::call const&, operands...) {}
};

namespace {

/// GPT-2 without attention, so that no work is quadratic in the number of tokens.
struct without_attention {
  int layers, width, vocabulary;

  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = vocabulary, .width = width});
    x = ct::repeat("block", layers, x,
                   [](ct::value x) { return x + ct::apply("mlp", ct::gpt2_mlp{0.02}, ct::layer_norm("norm", x)); });
    return ct::linear("head", ct::layer_norm("norm", x), vocabulary, {.bias = false});
  }
};

struct point {
  double n = 0;
  std::function<void()> run;
  std::vector<double> seconds;
};

template <class task> point point_of(double n) {
  auto const step = std::make_shared<step_of_plan<task>>();
  step->run(), step->run();
  return {n, [step] { step->run(); }, {}};
}

template <int layers> point with_layers() {
  return point_of<ct::task<ct::gpt2{.layers = layers, .heads = 4, .width = 256, .vocabulary = 1024, .context = 128},
                           ct::causal_lm, ct::micro_batch{.sequences = 4}>>(layers);
}
template <int width> point with_width() {
  using task = ct::task<ct::gpt2{.layers = 4, .heads = 4, .width = width, .vocabulary = 1024, .context = 128},
                        ct::causal_lm, ct::micro_batch{.sequences = 4}>;
  return point_of<task>(step_of_plan<task>::entries::work.flops * 1e-9);
}
template <int tokens> point with_tokens() {
  return point_of<
      ct::task<without_attention{4, 256, 1024}, ct::causal_lm, ct::micro_batch{.sequences = 4, .tokens = tokens}>>(
      4 * tokens);
}

/// Measures the points in turn, fits seconds = a + b n and prints each point's residual. The fit minimizes the sum of
/// the squared relative residuals. With absolute residuals, long steps would outweigh short steps, because noise is
/// proportional to time.
void fit(char const* what, char const* unit, std::vector<point> points, int rounds, ct::io::json_writer& json) {
  for (int i = 0; i < rounds; ++i)
    for (auto& p : points) p.seconds.push_back(seconds_of(p.run));
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (auto const& p : points) {
    auto const t = median(p.seconds), weight = 1 / (t * t);
    n += weight, x += weight * p.n, y += weight * t, xx += weight * p.n * p.n, xy += weight * p.n * t;
  }
  double const slope = (n * xy - x * y) / (n * xx - x * x), start = (y - slope * x) / n;
  std::printf("\n%s: %.3f ms + n x %.4f ms, n in %s, medians of %s\n", what, 1e3 * start, 1e3 * slope, unit,
              ct::counted(rounds, "round").c_str());
  json.object(what).member("unit", unit).member("a_seconds", start).member("b_seconds", slope).array("points");
  for (auto const& p : points) {
    auto const t = median(p.seconds), line = start + slope * p.n;
    std::printf("  n %10.3f  %9.3f ms  residual %+8.3f ms  %+5.1f %%\n", p.n, 1e3 * t, 1e3 * (t - line),
                100 * (t - line) / t);
    json.object(ct::io::json_layout::row)
        .member("n", p.n)
        .member("seconds", t)
        .member("residual_seconds", t - line)
        .end();
  }
  json.end().end();
}

constexpr int iterations = 1000;

template <int inputs> struct calls_of_nothing {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 4, .width = 4});
    return ct::repeat("block", iterations, x, [](ct::value x) {
      if constexpr (inputs == 1) {
        for (int i = 0; i < 8; ++i) x = ct::emit<own::nothing>({x}, {}, 0);
      } else {
        auto const w = ct::parameter(x, "weight", ct::shape(4), ct::role::frozen, {});
        for (int i = 0; i < 8; ++i) x = ct::emit<own::nothing>({x, w, w}, {}, 0);
      }
      return x;
    });
  }
};

struct count_calls {
  std::int64_t& calls;
  void before(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) { ++calls; }
  void after(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {}
};

/// Measures the nanoseconds that the executor takes per kernel call to compute addresses, run the loops, and call a
/// kernel that does nothing.
template <int inputs> void measure_executor(char const* what, ct::io::json_writer& json) {
  using task = ct::task<calls_of_nothing<inputs>{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 1}>;
  using entries = ct::entries<task, ct::policies<ct::optimizer::sgd>>;
  using predict = typename entries::predict;
  ct::runner<ct::cpu, false> runner(entries::memory.peak, entries::scratch);
  runner.arena().fill(0, entries::memory.peak.count(), 0);
  ct::step_parameters const parameters;
  std::int64_t calls = 0;
  runner.template run<predict>(parameters, count_calls{calls});
  for (int i = 0; i < 20; ++i) runner.template run<predict>(parameters);
  auto const seconds = median_seconds_of(101, [&] { runner.template run<predict>(parameters); });
  auto const nanoseconds = 1e9 * seconds / static_cast<double>(calls);
  std::printf("  %-38s %7.1f ns a call  (%lld calls)\n", what, nanoseconds, static_cast<long long>(calls));
  json.member(what, nanoseconds);
}

} // namespace

int main(int count, char** values) try {
  std::string out;
  int rounds = 21;
  for (int i = 1; i < count; i += 2) {
    std::string const name = values[i], value = i + 1 < count ? values[i + 1] : "";
    if (name == "--out" && !value.empty()) out = value;
    else if (name == "--rounds" && !value.empty()) rounds = std::max(1, std::atoi(value.c_str()));
    else throw ct::error("growth: the options are --rounds N and --out DIRECTORY, not '" + name + "'");
  }
  ct::io::json_writer json;
  json.object().member("machine", machine_name()).member("gemm", ct::gemm_provider());
  fit("layers", "layers", {with_layers<2>(), with_layers<4>(), with_layers<6>(), with_layers<8>()}, rounds, json);
  fit("width", "GFLOP a step", {with_width<128>(), with_width<256>(), with_width<384>(), with_width<512>()}, rounds,
      json);
  fit("tokens", "tokens, without attention",
      {with_tokens<64>(), with_tokens<128>(), with_tokens<256>(), with_tokens<512>()}, rounds, json);
  std::printf("\nexecutor, kernels that do nothing\n");
  json.object("executor_nanoseconds");
  measure_executor<1>("one input, one output, in a loop", json);
  measure_executor<3>("three inputs, one output, in a loop", json);
  json.end().end();
  if (!out.empty()) {
    auto const path = out + "/growth." + machine_name() + ".json";
    auto* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) throw ct::error("growth: " + path + " cannot be written; give a writable directory");
    std::fprintf(file, "%s\n", json.text().c_str());
    std::fclose(file);
  }
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
