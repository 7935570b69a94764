// Prints the memory that attention needs besides its inputs and results, the memory of the logits, and the totals of
// the plan, for sequences of 256 to 8192 tokens. The figures come from the plan; no kernel runs.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <string_view>

namespace ct = constrain;

namespace {

constexpr int layers = 12;
constexpr int vocabulary = 50257;

/// The bytes of the last output of each attention op: scratch memory, or values kept for the backward pass. `scratch`
/// chooses which of the two to count.
template <class entries> std::int64_t attention_bytes(bool scratch) {
  auto const& p = entries::step_program::final;
  std::int64_t total = 0;
  for (auto const& n : p.nodes) {
    if (n.kind != ct::node_kind::call || std::string_view(n.op->name).find("attention") == std::string_view::npos)
      continue;
    int const last = n.outputs.size() - 1;
    auto const& buffer = entries::step::where.buffers[n.outputs[last].value];
    if (buffer.offset >= 0 && ((n.op->workspace >> last & 1u) != 0) == scratch) total += buffer.size;
  }
  return total;
}

/// The bytes of the values whose last dimension is the vocabulary, except parameters and their gradients, states and
/// copies.
template <class entries> std::int64_t logits_bytes() {
  auto const& p = entries::step_program::final;
  std::int64_t total = 0;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    auto const& buffer = entries::step::where.buffers[v];
    if (buffer.offset >= 0 && info.shape.features() == vocabulary && info.belongs_to < 0 &&
        !ct::is_parameter(info.role))
      total += buffer.size;
  }
  return total;
}

template <int tokens, class attention> void print_row() {
  using task = ct::task<ct::gpt2{.layers = layers, .vocabulary = vocabulary, .context = tokens}, ct::causal_lm,
                        ct::micro_batch{.sequences = 1}>;
  using entries = ct::entries<task, ct::policies<attention>>;
  auto const mebibytes = [](std::int64_t b) { return ct::bytes(b).mebibytes(); };
  std::printf("%8d %-24s %12.3f %12.3f %12.1f %14.1f %12.1f\n", tokens, ct::policy_name<attention>().c_str(),
              mebibytes(attention_bytes<entries>(false)), mebibytes(attention_bytes<entries>(true)),
              mebibytes(logits_bytes<entries>()), entries::memory.activations.mebibytes(),
              entries::memory.peak.mebibytes());
}

template <int... tokens> void print_rows() {
  (print_row<tokens, ct::attention::flash>(), ...);
  (print_row<tokens, ct::attention::reference>(), ...);
}

} // namespace

int main() {
  std::printf("GPT-2 124M, one sequence, fp32, planned MiB; the column \"kept\" covers all %d layers\n", layers);
  std::printf("%8s %-24s %12s %12s %12s %14s %12s\n", "tokens", "", "kept", "scratch", "logits", "activations", "peak");
  print_rows<256, 512, 1024, 2048, 4096, 8192>();
}
