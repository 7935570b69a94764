// refused: policy: it has a member `pass`, but no member `after`, the pass of the library after which `pass` runs
// shows: own_pass_has_no_predecessor
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

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

constexpr ct::program freeze(ct::program p) {
  for (auto& info : p.values)
    if (ct::is_trainable(info.role) && info.role != ct::role::bias) info.role = ct::role::frozen;
  return p;
}

struct biases {
  using slot = what_is_trained;
  static constexpr slot value{.biases_alone = true};
#ifdef CORRECT
  static constexpr auto after = ct::pass_name::built;
#endif
  static constexpr ct::program pass(ct::program const& p, slot const&) { return freeze(p); }
};

ct::trainer<task, biases> t; // <- here
