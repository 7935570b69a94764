// Measures the GEMMs of linear layers of GPT-2 124M, BERT-large and Llama 3.2 1B with every provider, beside the
// processor's peak: bench.gemms [--rows N]... [--type fp32|bf16] [--rounds N] [--out DIRECTORY]

#include "gemms.hpp"
#include "cpu_limits.hpp"

#include <constrain/base/error.hpp>
#include <constrain/device/cpu/gemm.hpp>
#include <constrain/io/json_writer.hpp>
#include <constrain/run/host_arena.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace {

struct arguments {
  std::vector<std::int64_t> rows; // empty: all numbers of rows
  int rounds = 5;
  std::string type, out;
};

constexpr std::int64_t all_rows[] = {64, 256, 1024, 4096};

/// A linear layer of a model.
struct layer {
  char const* name;
  std::int64_t in, out;
};

constexpr layer layers[] = {
    {"gpt2 q, k, v", 768, 2304},   {"gpt2 projection", 768, 768},     {"gpt2 up", 768, 3072},
    {"gpt2 down", 3072, 768},      {"gpt2 head", 768, 50257},         {"bert_large q, k, v, projection", 1024, 1024},
    {"bert_large up", 1024, 4096}, {"bert_large down", 4096, 1024},   {"llama_1b q, projection", 2048, 2048},
    {"llama_1b k, v", 2048, 512},  {"llama_1b up, gate", 2048, 8192}, {"llama_1b down", 8192, 2048},
};

/// A layer's three GEMMs for `rows` rows of x.
enum class part { forward, input_gradient, weight_gradient };
constexpr char const* names_of_parts[] = {"forward", "dx", "dw"};

gemm_shape shape_of(layer const& l, part which, std::int64_t rows) {
  switch (which) {
  case part::forward: return {.b_transposed = true, .m = rows, .n = l.out, .k = l.in};
  case part::input_gradient: return {.m = rows, .n = l.in, .k = l.out};
  default: return {.a_transposed = true, .m = l.out, .n = l.in, .k = rows};
  }
}

/// A matrix in memory like a trainer's: aligned, and in huge pages where the system has them.
template <class element> class matrix {
public:
  explicit matrix(std::int64_t count)
      : count_(count), memory_(ct::bytes(count * static_cast<std::int64_t>(sizeof(element)))) {}

  element* data() const { return reinterpret_cast<element*>(memory_.data()); }
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-1, 1);
    for (std::int64_t i = 0; i < count_; ++i) data()[i] = element(values(random));
  }

private:
  std::int64_t count_;
  ct::host_arena memory_;
};

struct timed {
  std::string provider;
  double gflops;
};

/// The median rate of each provider. The providers alternate; each runs for at least 50 ms in each round.
template <class stored, class result>
std::vector<timed> measure(std::vector<provider<stored, result>> const& all, gemm_shape const& shape, int rounds) {
  matrix<stored> a(shape.m * shape.k), b(shape.k * shape.n);
  a.fill(1), b.fill(2);
  matrix<result> const c(shape.m * shape.n);
  std::vector<std::vector<double>> seconds(all.size());
  std::vector<int> runs(all.size(), 1);
  auto const repeat = [&](std::size_t i) {
    return seconds_of([&] {
      for (int n = 0; n < runs[i]; ++n) all[i].multiply(shape, a.data(), b.data(), c.data());
    });
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    repeat(i); // warm-up
    runs[i] = static_cast<int>(0.05 / std::max(repeat(i), 1e-6)) + 1;
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) seconds[i].push_back(repeat(i) / runs[i]);
  std::vector<timed> out;
  auto const operations =
      2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  for (std::size_t i = 0; i < all.size(); ++i) out.push_back({all[i].name, operations / median(seconds[i])});
  return out;
}

/// Ratios of the built-in GEMM to the fastest other provider (`gemm` is none: it calls one of the others).
struct comparison {
  std::vector<double> ratios{};
  double operations = 0, built_in_seconds = 0, best_seconds = 0;

  void add(gemm_shape const& s, double built_in, double best) {
    auto const work = 2e-9 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    ratios.push_back(built_in / best);
    operations += work, built_in_seconds += work / built_in, best_seconds += work / best;
  }
};

template <class stored>
void measure_type(arguments const& a, char const* type, double peak, ct::io::json_writer& json) {
  for (std::int64_t rows : all_rows) {
    if (!a.rows.empty() && std::ranges::find(a.rows, rows) == a.rows.end()) continue;
    std::printf("\n%s, %lld rows: GFLOP/s, and the share of the peak of %.1f\n", type, static_cast<long long>(rows),
                peak);
    comparison all;
    for (auto const& l : layers)
      for (auto const which : {part::forward, part::input_gradient, part::weight_gradient}) {
        auto const shape = shape_of(l, which, rows);
        auto const print = [&](std::vector<timed> const& rates) {
          double built_in = 0, best = 0;
          json.object(ct::io::json_layout::row).member("type", type).member("layer", l.name);
          json.member("gemm", names_of_parts[static_cast<int>(which)]).member("rows", rows).object("gflops");
          std::printf("  %-32s %-8s", l.name, names_of_parts[static_cast<int>(which)]);
          for (auto const& [name, rate] : rates) {
            if (name == "built-in") built_in = rate;
            else if (name != "gemm") best = std::max(best, rate);
            std::printf("  %s %.1f (%.2f)", name.c_str(), rate, rate / peak);
            json.member(name, rate);
          }
          json.end().end();
          std::printf("  built-in/best %.3f\n", built_in / best);
          std::fflush(stdout);
          all.add(shape, built_in, best);
        };
        // Weight gradients have the masters' type.
        if (std::is_same_v<stored, float> || which == part::weight_gradient)
          print(measure(providers<stored, float>(), shape, a.rounds));
        else print(measure(providers<stored, stored>(), shape, a.rounds));
      }
    std::printf(
        "  all: built-in %.1f GFLOP/s (%.2f of the peak), best other per shape %.1f; built-in/best: median %.3f, "
        "least %.3f\n",
        all.operations / all.built_in_seconds, all.operations / all.built_in_seconds / peak,
        all.operations / all.best_seconds, median(all.ratios), *std::min_element(all.ratios.begin(), all.ratios.end()));
  }
}

arguments read_arguments(int count, char** values) {
  std::string const options =
      "write --rows 64|256|1024|4096 (once or several times), --type fp32|bf16, --rounds N or --out DIRECTORY";
  arguments a;
  for (int i = 1; i < count; i += 2) {
    std::string const name = values[i];
    if (i + 1 == count) throw ct::error("gemms: " + name + " has no value; " + options);
    std::string const value = values[i + 1];
    if (name == "--rows") a.rows.push_back(std::atoll(value.c_str()));
    else if (name == "--type") a.type = value;
    else if (name == "--rounds") a.rounds = std::max(1, std::atoi(value.c_str()));
    else if (name == "--out") a.out = value;
    else throw ct::error("gemms: there is no option " + name + "; " + options);
  }
  for (auto const rows : a.rows)
    if (std::ranges::find(all_rows, rows) == std::end(all_rows))
      throw ct::error("gemms: --rows must be 64, 256, 1024 or 4096");
  if (!a.type.empty() && a.type != "fp32" && a.type != "bf16") throw ct::error("gemms: --type must be fp32 or bf16");
  return a;
}

} // namespace

int main(int count, char** values) try {
  auto const a = read_arguments(count, values);
  auto const threads = std::int64_t{ct::thread_count()};
  auto const fp32 = 1e-9 * constrain::bench::detail::sustained_flops(threads, 7);
  auto const bf16 = 1e-9 * constrain::bench::detail::sustained_bf16_flops(threads, 7);
  ct::io::json_writer json;
  json.object().member("fp32_peak_gflops", fp32).member("bf16_peak_gflops", bf16).array("gemms");
  if (a.type.empty() || a.type == "fp32") measure_type<float>(a, "fp32", fp32, json);
  if (a.type.empty() || a.type == "bf16") measure_type<ct::bfloat16>(a, "bf16", bf16 > 0 ? bf16 : fp32, json);
  json.end().end();
  if (a.out.empty()) return 0;
  auto const path = a.out + "/gemms." + machine_name() + ".json";
  auto* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw ct::error("gemms: " + path + " cannot be written; give a writable directory");
  std::fprintf(file, "%s\n", json.text().c_str());
  return std::fclose(file) != 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
