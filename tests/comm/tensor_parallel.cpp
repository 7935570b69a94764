#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

// Ranks that divide the layers of a model train as one process does.

namespace ct = constrain;

namespace {

int failures = 0;

void expect(bool holds, char const* what, char const* of, double seen) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s (%g)\n", of, what, seen);
  ++failures;
}

template <ct::gpt2 model> using lm = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
constexpr ct::gpt2 small{.layers = 3, .heads = 4, .width = 16, .vocabulary = 31, .context = 8};

template <class trainer> auto batch_of(trainer const& t, int number) {
  static std::vector<std::int32_t> inputs, labels;
  inputs.resize(static_cast<std::size_t>(trainer::batch_tokens)), labels.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * i * 3 + static_cast<std::size_t>(number)) % 31);
    labels[i] = static_cast<std::int32_t>((i * 7 + 5 + static_cast<std::size_t>(number)) % 31);
  }
  return t.batch(inputs, labels);
}

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span(values));
  return values;
}

/// The largest difference of two tensors, relative to the largest element.
double difference(ct::tensor_view const& a, ct::tensor_view const& b) {
  auto const x = values_of(a), y = values_of(b);
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(x[i] - y[i])), scale = std::max(scale, std::abs(y[i]));
  return scale == 0 ? worst : worst / scale;
}

template <class task, int ranks, class... policies> void compare(char const* name, double bound) {
  using together = ct::trainer<task, ct::parallel::tensor<ranks>, policies...>;
  using alone = ct::trainer<task, policies...>;
  typename alone::hyper const h{.learning_rate = 0.01f};
  ct::run_options run{.seed = 5};
  run.checked = true;
  run.dropout = 0.1;
  run.clip_norm = 0.5;
  together t{h, run};
  alone one{h, run};
  for (int i = 0; i < 10; ++i) {
    auto const ours = t.step(batch_of(t, i)), theirs = one.step(batch_of(one, i));
    expect(std::abs(ours.loss - theirs.loss) <= bound * theirs.loss, "the losses differ", name, ours.loss - theirs.loss);
    double const norm = ours.gradient_norm / theirs.gradient_norm - 1;
    expect(std::abs(norm) <= bound, "the norms differ", name, norm);
    for (auto const& p : one.parameters()) {
      if (i > 0) continue;
      double const d = difference(t.gradient(p.name), one.gradient(p.name));
      bool const is_zero = p.name == "block.attention.qkv.bias"; // of keys: rounding
      expect(is_zero || d <= bound, std::string(p.name).c_str(), name, d);
    }
  }
  auto const all = t.parameters(), expected = one.parameters();
  for (std::size_t i = 0; i < all.size(); ++i) {
    double const d = difference(all[i], expected[i]);
    expect(d <= 10 * bound, std::string(all[i].name).c_str(), name, d);
  }
  if (t.rank() == 0) std::printf("%s: %lld of %lld bytes\n", name, static_cast<long long>(together::memory.peak.count()),
                                 static_cast<long long>(alone::memory.peak.count()));
}

} // namespace

int main() {
  using ct::optimizer::sgd, ct::optimizer::adamw;
  compare<lm<small>, 2, ct::precision::fp64, sgd>("fp64", 1e-13);
  return failures == 0 ? 0 : 1;
}
