#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = differentiated(built<chain_task<3>>());
constexpr auto adamw = update<optimizer::adamw>(before);
constexpr auto sgd = update<optimizer::sgd>(before);

constexpr int count(program const& p, role r) {
  int n = 0;
  for (auto const& info : p.values) n += info.role == r ? 1 : 0;
  return n;
}
constexpr std::int64_t bytes_of(program const& p, role r) {
  auto const where = plan_memory(p);
  std::int64_t total = 0;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == r && where.buffers[v].offset >= 0) total += where.buffers[v].size;
  return total;
}

static_assert(verify(adamw).ok() && verify(sgd).ok());
static_assert(calls(adamw, &info_of<op::update<optimizer::adamw>>) == 3);
static_assert(calls(adamw, &info_of<op::gradient_norm_squared>) == 3 &&
              calls(adamw, &info_of<op::clip_coefficient>) == 1);
// Two states a parameter, none without a state.
static_assert(count(adamw, role::state) == 6 && count(sgd, role::state) == 0);
static_assert(bytes_of(adamw, role::state) == 2 * bytes_of(adamw, role::gradient) && bytes_of(sgd, role::state) == 0);
static_assert(count(adamw, role::hyperparameters) == 1);
static_assert(adamw.values[adamw.result("gradient_squares").value].shape == shape(3));
static_assert(adamw.values[adamw.result("clip_coefficient").value].role == role::result);

// Weight decay follows the role: embeddings and weights, no norms and biases.
constexpr auto gpt = update<optimizer::adamw>(differentiated(built<gpt2_task>()));
constexpr bool decay_follows_role = [] {
  for (auto const& n : gpt.nodes)
    if (n.op == &info_of<op::update<optimizer::adamw>>)
      if (unpack<op::update_options>(n.attributes).decays != decays(gpt.values[n.outputs[0].value].role)) return false;
  return true;
}();
static_assert(decay_follows_role);

// The keys of an update rule's calls follow the greatest key in the program, whatever calls were removed before.
constexpr int key_after(int removed_key) {
  auto p = differentiated(built<tagger_task>());
  p.random_keys = removed_key;
  return update<optimizer::sgd>(p).random_keys;
}
static_assert(key_after(1) == 1 && key_after(7) == 1);

// Each call of a rule that draws random numbers has its own key.
struct add_noise {
  static constexpr char const* name = "add_noise";
  static constexpr bool guarded = true, draws_random = true;
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct noise {
  struct hyper {
    float learning_rate = 0;
  };
  static constexpr void update(update_rule& u) {
    u.update_in_place<add_noise>({u.gradient(), u.scale()}, {u.parameter()});
  }
};
constexpr auto noisy = update<noise>(before);

// An update in place has at most as many outputs as a node.
struct ten_outputs : noise {
  static constexpr void update(update_rule& u) {
    auto const p = u.parameter();
    u.update_in_place<add_noise>({u.gradient(), u.scale()}, {p, p, p, p, p, p, p, p, p, p});
  }
};
static_assert(update<ten_outputs>(before).failure.reason == why::too_many_operands);

constexpr bool keys_are_consecutive = [] {
  int key = before.random_keys;
  for (auto const& n : noisy.nodes)
    if (calls(n, info_of<add_noise>) && n.random_key != ++key) return false;
  return key == before.random_keys + 3 && noisy.random_keys == key;
}();
static_assert(verify(noisy).ok() && keys_are_consecutive);

// A guarded op that needs the full tensor may write parameters and states that ranks store in shards; another op may
// not.
struct noise_of_state {
  struct hyper {
    float learning_rate = 0;
  };
  static constexpr void update(update_rule& u) {
    u.update_in_place<add_noise>({u.gradient(), u.scale()}, {u.state("noise")});
  }
};
struct reset : add_noise {
  static constexpr char const* name = "reset";
  static constexpr bool guarded = false;
};
constexpr program resetting = [] {
  builder out;
  out.program = before;
  for_each_gradient(out, [](value g) {
    int const parameter = g.owner().program.values[g.where().value].belongs_to;
    g.owner().call<reset>({g.where()}, {{parameter, at::current}});
  });
  return update<optimizer::sgd>(out.program);
}();
static_assert(verify(partition(noisy, true, 2, 1)).ok() && verify(partition(noisy, true, 2, 3)).ok());
static_assert(verify(partition(update<noise_of_state>(before), true, 2, 1)).ok());
static_assert(verify(partition(resetting, true, 2, 3)).reason == why::unguarded_write);

// Nodes that follow the micro-batches are outside of their loop.
constexpr auto accumulated = update<optimizer::sgd>(differentiated(built<chain_task<3>>(), 4));
static_assert(accumulated.end_of(0) == accumulated.nodes.size() - 8); // 3 squares, clip, 3 updates, and the end itself

} // namespace

TEST_CASE("update, in full") {
  auto const text = print(update<optimizer::momentum>(differentiated(built<tied_task>())));
  auto const begin = print(differentiated(built<tied_task>()));
  REQUIRE(text.substr(0, begin.size()) == begin);
  CHECK(text.substr(begin.size()) == "%16 f64 [1] = gradient_norm_squared(table.gradient)\n"
                                     "%18 f64 [2] = clip_coefficient(%16, clip_norm)\n"
                                     "table f32 [5, 4], table.momentum_buffer f32 [5, 4] = update(table.gradient, "
                                     "%18, %19)\n");
}
