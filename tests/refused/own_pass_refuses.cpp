// refused: biases: the model has no bias; give a ct::linear a bias, or leave the policy out
// shows: model_without_biases
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    return ct::linear("head", x, 97);
#else
    return ct::linear("head", x, 97, {.bias = false});
#endif
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;

struct trained_whole;
struct what_is_trained {
  bool biases_alone = false;
  friend constexpr bool operator==(what_is_trained const&, what_is_trained const&) = default;
  template <class...> using otherwise = trained_whole;
  using rules = ct::rule_list<>;
};
struct trained_whole {
  using slot = what_is_trained;
  static constexpr slot value{};
};

struct biases {
  template <ct::diagnosis d> struct model_without_biases {
    static_assert(d.ok(), "biases: the model has no bias; give a ct::linear a bias, or leave the policy out");
  };
  using slot = what_is_trained;
  static constexpr slot value{.biases_alone = true};
  static constexpr auto after = ct::pass_name::built;
  static constexpr ct::program pass(ct::program p, slot const&) {
    int found = 0;
    for (auto& info : p.values) {
      found += info.role == ct::role::bias ? 1 : 0;
      if (ct::is_trainable(info.role) && info.role != ct::role::bias) info.role = ct::role::frozen;
    }
    if (found == 0) p.fail(ct::diagnosis_with<model_without_biases>());
    return p;
  }
};

ct::trainer<task, biases> t; // <- here
