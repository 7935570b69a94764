#include "fixtures.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <string>
#include <vector>

// A model with grouped-query attention whose queries, keys and values are separate parameters, under the names of
// Transformers' LlamaForCausalLM.

namespace ct = constrain;
using namespace constrain::test;

namespace {

struct grouped_query_lm {
  int layers, width, heads, key_value_heads, vocabulary;

  constexpr ct::value operator()(ct::value tokens) const {
    auto const matrix = [](char const* name, ct::value x, std::int64_t features) {
      return ct::linear(name, x, features, {.bias = false});
    };
    auto x = ct::embedding("token", tokens, {.vocabulary = vocabulary, .width = width});
    x = ct::repeat("block", layers, x, [&](ct::value h) {
      auto const a = ct::rms_norm("norm_1", h);
      auto const key_width = std::int64_t{width} / heads * key_value_heads;
      auto const y = ct::self_attention(matrix("q", a, width), matrix("k", a, key_width), matrix("v", a, key_width),
                                        {.heads = heads, .key_value_heads = key_value_heads});
      h = h + matrix("o", y, width);
      auto const b = ct::rms_norm("norm_2", h);
      return h + matrix("down", ct::silu(matrix("gate", b, 2 * width)) * matrix("up", b, 2 * width), width);
    });
    return ct::linear("head", ct::rms_norm("norm", x), vocabulary, {.bias = false, .role = ct::role::head});
  }
};

} // namespace

template <> struct constrain::weight_format_of<grouped_query_lm> {
  static constexpr ct::stored_name names[] = {
      {"token.weight", "model.embed_tokens.weight"},
      {"block.norm_1.weight", "model.layers.*.input_layernorm.weight"},
      {"block.q.weight", "model.layers.*.self_attn.q_proj.weight"},
      {"block.k.weight", "model.layers.*.self_attn.k_proj.weight"},
      {"block.v.weight", "model.layers.*.self_attn.v_proj.weight"},
      {"block.o.weight", "model.layers.*.self_attn.o_proj.weight"},
      {"block.norm_2.weight", "model.layers.*.post_attention_layernorm.weight"},
      {"block.gate.weight", "model.layers.*.mlp.gate_proj.weight"},
      {"block.up.weight", "model.layers.*.mlp.up_proj.weight"},
      {"block.down.weight", "model.layers.*.mlp.down_proj.weight"},
      {"norm.weight", "model.norm.weight"},
      {"head.weight", "lm_head.weight"},
  };
  static weight_format make(grouped_query_lm const& m) {
    ct::io::json_writer json;
    json.object().member("model_type", "llama").member("num_hidden_layers", m.layers);
    json.member("num_attention_heads", m.heads).member("num_key_value_heads", m.key_value_heads).end();
    return {.names = names, .configuration = json.text()};
  }
};

namespace {

constexpr grouped_query_lm model{.layers = 2, .width = 16, .heads = 8, .key_value_heads = 2, .vocabulary = 19};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 6}>;
using muon = ct::optimizer::muon<ct::optimizer::adamw>;
using ct::optimizer::adafactor;
template <class... policies> using trainer = ct::trainer<task, policies...>;

constexpr char const* names[] = {"q", "k", "v"};
constexpr std::int64_t rows[] = {16, 4, 4};

template <class trainer> double step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(number)) % 19);
    labels[i] = static_cast<std::int32_t>((i * 7 + 7 + static_cast<std::size_t>(number)) % 19);
  }
  return t.step(t.batch(inputs, labels)).loss;
}

template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

} // namespace

TEST_CASE("grouped queries: q, k and v are parameters of role weight; each has its states, and decays once") {
  trainer<muon> m;
  trainer<adafactor> a;
  trainer<ct::optimizer::adamw> w;
  auto const explained = ct::explanation<trainer<muon>>();
  for (int i = 0; i < 3; ++i) {
    std::string const name = "block." + std::string(names[i]) + ".weight";
    CAPTURE(name);
    auto const leaves = m.parameters();
    auto const found = std::count_if(leaves.begin(), leaves.end(), [&](auto const& p) { return p.name == name; });
    CHECK(found == 1);
    for (auto const& p : leaves)
      if (p.name == name)
        CHECK((p.role == ct::role::weight && p.shape() == ct::shape(rows[i], 16) && p.iterations() == 2));
    CHECK(m.state(name, "momentum_buffer").size() == 2 * rows[i] * 16);
    CHECK(a.state(name, "exp_avg_sq_row").size() == 2 * rows[i]);
    CHECK(a.state(name, "exp_avg_sq_col").size() == 2 * 16);
    CHECK(w.state(name, "exp_avg").size() == 2 * rows[i] * 16);
    auto const line = explained.find("\n  " + name + " ");
    REQUIRE(line != std::string::npos);
    CHECK(explained.substr(line + 1, explained.find('\n', line + 1) - line - 1).ends_with("  decays"));
    CHECK(explained.find("\n  " + name + " ", line + 1) == std::string::npos);
  }
  constexpr std::int64_t matrices = 2 * (2 * 16 * 16 + 2 * 4 * 16 + 3 * 32 * 16);
  CHECK(trainer<muon>::memory.optimizer_state ==
        ct::bytes(4 * matrices + 8 * (trainer<muon>::parameter_count - matrices)));
}

TEST_CASE("grouped queries: weight decay shrinks q, k and v once") {
  // A learning rate below rounding leaves only the decay: lr * weight_decay = 0.25.
  trainer<ct::optimizer::sgd, ct::precision::fp64> t{{.learning_rate = 0x1p-40f, .weight_decay = 0x1p38f}};
  std::vector<std::vector<double>> before;
  for (auto const& p : t.parameters()) {
    before.emplace_back(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(before.back()));
  }
  step(t, 0);
  for (std::size_t k = 0; k < before.size(); ++k) {
    auto const p = t.parameters()[k];
    if (p.role != ct::role::weight) continue;
    std::vector<double> after(before[k]);
    p.copy_to(std::span(after));
    for (std::size_t i = 0; i < after.size(); ++i)
      CHECK(after[i] == doctest::Approx(0.75 * before[k][i]).epsilon(1e-6));
  }
}

TEST_CASE("grouped queries: trains, and its weights go through a file with the names of LLaMA") {
  trainer<muon> t{{.learning_rate = 0.02f, .base = {.learning_rate = 1e-2f}}};
  double const first = step(t, 0);
  double last = first;
  for (int i = 0; i < 60; ++i) last = step(t, 0);
  CHECK(last < 0.5 * first);
  temporary_directory const directory;
  t.save(directory / "run");
  auto const path = directory / "run/model.safetensors";
  auto const file = ct::io::safetensors_file::open(path);
  for (auto const layer : {"0", "1"})
    for (int i = 0; i < 3; ++i) {
      auto const name = "model.layers." + std::string(layer) + ".self_attn." + names[i] + "_proj.weight";
      CAPTURE(name);
      auto const found = std::find_if(file.tensors().begin(), file.tensors().end(),
                                      [&](auto const& tensor) { return tensor.name == name; });
      REQUIRE(found != file.tensors().end());
      CHECK(found->shape == std::vector<std::int64_t>{rows[i], 16});
    }
  CHECK(file.tensors().size() == 3 + 2 * 9);
  // Another optimizer's trainer, with other initial weights, loads the same model.
  trainer<ct::optimizer::adamw> other{{}, {.seed = 9}};
  std::vector<std::int32_t> const prompt(2 * 6, 3);
  CHECK(t.predict(prompt).logits != other.predict(prompt).logits);
  other.load_pretrained(path);
  CHECK(t.predict(prompt).logits == other.predict(prompt).logits);
}

TEST_CASE("grouped queries: resumes bit-identically") {
  auto const check = [&]<class optimizer>() {
    trainer<optimizer> plain;
    temporary_directory const directory;
    for (int i = 0; i < 4; ++i) {
      if (i == 2) plain.save(directory / "half");
      step(plain, i);
    }
    trainer<optimizer> resumed{{}, {.seed = 8}};
    resumed.load(directory / "half");
    step(resumed, 2), step(resumed, 3);
    CHECK(bytes_of(resumed) == bytes_of(plain));
  };
  check.template operator()<muon>();
  check.template operator()<adafactor>();
}
