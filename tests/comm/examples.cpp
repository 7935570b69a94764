// fit on examples in two processes: what one process with as many micro-batches computes. Started by mpirun; the exit
// code tells.

#include "sentence.hpp"

#include <constrain/constrain.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

// Tokens and a real number of each sequence; the label is a real number of each sequence.
struct two_inputs {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  constexpr ct::value operator()(ct::value tokens, ct::value x) const {
    auto const pooled = ct::mean(ct::embedding("token", tokens, {.vocabulary = 9, .width = 8}), ct::axis::tokens);
    return ct::linear("out", ct::gelu(pooled + ct::linear("x", x, 8)), 1);
  }
};
using task = ct::task<two_inputs{}, ct::mean_squared_error, ct::micro_batch{.sequences = 2, .tokens = 3}>;
using one_process = ct::trainer<task, ct::precision::fp64, ct::accumulate<2>>;
using two_processes = ct::trainer<task, ct::precision::fp64, ct::parallel::ddp>;
using shards = ct::trainer<task, ct::precision::fp64, ct::parallel::zero<3, 2>>;

struct arrays {
  std::vector<std::int32_t> tokens;
  std::vector<float> x, y;
  explicit arrays(int count) {
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 3; ++k) tokens.push_back((i * 5 + k * k) % 9);
      x.insert(x.end(), {static_cast<float>(std::sin(i)), static_cast<float>(std::cos(i))});
      y.push_back(x.back() + static_cast<float>(tokens.back()) / 9);
    }
  }
  ct::data::examples all() const { return {{tokens, x}, y}; }
};

/// The weights, and the losses of training and validation.
template <class trainer> std::vector<double> numbers(trainer const& t, ct::fit_result const& r) {
  std::vector<double> all{r.loss, r.validation->loss};
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

typename one_process::hyper const hyper{.learning_rate = 1e-2f};
arrays const training(13), validation(5); // 3.25 steps an epoch

/// `stop`: the step after which the run is saved and resumed.
template <class trainer> std::vector<double> trained(std::string const& directory, std::int64_t stop) {
  auto const data = training.all(), held_out = validation.all();
  if (stop > 0) {
    trainer first(hyper, {.seed = 6});
    ct::fit(first, data, {.steps = stop, .directory = directory, .log = nullptr});
  }
  trainer t(hyper, {.seed = 6});
  if (stop > 0) check(t.resume(directory, nullptr), "no run was saved");
  auto const r = ct::fit(t, data, {.epochs = 3, .validation = &held_out, .log = nullptr});
  check(r.steps == 10, "three epochs of 13 examples are " + std::to_string(r.steps.count()) + " steps");
  return numbers(t, r);
}

double distance(std::vector<double> const& a, std::vector<double> const& b) {
  double most = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

void check_differing_data(int rank) {
  two_processes t;
  auto other = training;
  if (rank == 1) other.x[7] += 1;
  auto const data = other.all(), same = training.all();
  auto const said = ct::test::sentence([&] { ct::fit(t, data, {.steps = 2, .log = nullptr}); });
  check(said.starts_with("the ranks do not agree: the fingerprint of the examples is "), "other examples: " + said);
  auto const of_validation =
      ct::test::sentence([&] { ct::fit(t, same, {.steps = 2, .validation = &data, .log = nullptr}); });
  check(of_validation.starts_with("the ranks do not agree: the fingerprint of the examples of .validation is "),
        "other validation examples: " + of_validation);
}

} // namespace

int main() {
  two_processes const ranks;
  if (ranks.ranks() != 2) return std::fprintf(stderr, "start two processes\n"), EXIT_FAILURE;
  std::string const here = "examples-in-2-processes";
  auto const alone = trained<one_process>("", 0);
  auto const together = trained<two_processes>("", 0);
  check(distance(alone, together) < 1e-12, "two processes differ from one");
  check(trained<shards>("", 0) == together, "shards differ from full tensors");
  check(trained<two_processes>(here + "/ddp", 5) == together, "a resumed run differs");
  check(trained<shards>(here + "/shards", 5) == together, "a resumed run of shards differs");
  check_differing_data(ranks.rank());
  if (ranks.rank() == 0 && failures == 0) std::printf("2 ranks: all checks hold\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
