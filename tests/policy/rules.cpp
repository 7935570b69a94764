#include <constrain/op/attention/attention.hpp>
#include <constrain/op/gelu/gelu.hpp>
#include <constrain/policy/rule_table.hpp>
#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace constrain;

namespace {

using composed = decltype(composition_of<>());

/// The rules between slots, restated by hand: several CUDA devices need NCCL and do not divide layers; graphs need a
/// CUDA device; updates in the backward pass only with one micro-batch, without a loss scale and without shards.
constexpr bool go_together(composed const& c) {
  if (c.in_backward && (c.micro_batches > 1 || c.loss_scale || c.shards > 1)) return false;
  if (c.is_cuda && c.distributed && (!c.has_nccl || c.tensor > 1)) return false;
  return !c.captures || c.is_cuda;
}

/// The name of the first broken rule, "" for none.
constexpr std::string_view broken(composed const& c) {
  auto const* rule = broken_rule(c);
  return rule != nullptr ? rule->name : "";
}

constexpr int broken_rules(composed const& c) {
  int count = 0;
  for (auto const& rule : policy_rules) count += rule.holds(c) ? 0 : 1;
  return count;
}

struct no_state {
  struct hyper {};
};
struct no_update {
  struct hyper {};
  template <class real> struct state {};
};
struct counts_in_int {
  struct hyper {};
  template <class real> struct state { int steps; };
  template <class real> static real update(real, real, state<real>&, hyper const&, optimizer_step);
};

/// A value of a slot, and whether it may be said at all.
template <class slot> struct judged {
  slot value;
  bool legal;
};
template <class slot> using judged_values = std::vector<judged<slot>>;

template <class slot> void append(judged_values<slot>& all, slot const& value, bool legal) {
  for (auto const& known : all)
    if (known.value == value) return;
  all.push_back({value, legal});
}
template <class slot, class... policies> void append(judged_values<slot>& all, policy_list<policies...>, bool legal) {
  (append(all, value_of<policies>(), legal), ...);
}

/// The values of a slot's legal examples and of the policies that it refuses, also with and without optional libraries.
template <class slot> judged_values<slot> values_of() {
  judged_values<slot> all;
  if constexpr (requires { typename slot::examples; }) append(all, typename slot::examples{}, true);
  else append(all, slot{}, true);
  if constexpr (requires { typename slot::refused; }) append(all, typename slot::refused{}, false);
  if constexpr (std::is_same_v<slot, slot_of::optimizer>)
    append(all,
           policy_list<no_state, no_update, counts_in_int, optimizer::quantized<optimizer::adafactor>,
                       optimizer::states_in<dtype::i32, optimizer::adamw>, optimizer::muon<optimizer::muon<>>,
                       optimizer::muon<optimizer::adamw, 0>,
                       optimizer::averaged<optimizer::in_backward<optimizer::adamw>>>{},
           false);
  auto const count = all.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto other = all[i];
    if constexpr (requires { other.value.has_mpi; }) {
      all[i].value.has_mpi = true;
      other.value.has_mpi = false, other.legal = other.legal && !other.value.distributed;
      all.push_back(other);
    }
    if constexpr (requires { other.value.has_nccl; }) {
      all[i].value.has_nccl = true;
      other = all[i], other.value.has_nccl = false;
      if (other.legal && other.value.distributed) all.push_back(other);
    }
    if constexpr (requires { other.value.compiled; }) {
      all[i].value.compiled = true;
      other.value.compiled = false, other.legal = other.legal && !other.value.is_cuda;
      all.push_back(other);
    }
  }
  return all;
}

/// Calls f(composition, whether it is legal) for every composition of these values with every slot given once, and with
/// one slot given twice, or a type that is no policy, for each of the values.
template <class function, class... slots> void for_each_composition(function const& f, choices<slots...> const&) {
  auto const values = std::tuple(values_of<slots>()...);
  auto const vary = [&]<class first, class... rest>(auto const& self, composed c, bool legal, int twice,
                                                    slot_list<first, rest...>) -> void {
    for (auto const& each : std::get<judged_values<first>>(values)) {
      static_cast<first&>(c) = each.value;
      for (int more = 0; more <= twice; ++more) {
        static_cast<said<first>&>(c).given = more + (std::is_same_v<first, slot_of::unknown> ? 0 : 1);
        bool const still = legal && each.legal && more == 0;
        if constexpr (sizeof...(rest) == 0) f(c, still && go_together(c));
        else self(self, c, still, twice - more, slot_list<rest...>{});
      }
    }
  };
  vary(vary, {}, true, 1, slot_list<slots...>{});
}

// Both signs at compile time.
struct bare {
  struct hyper {};
};
using of_two_optimizers = composition<optimizer::sgd, optimizer::adamw>;
static_assert(broken(composition_of<>()) == "" && composition_is_legal<composition<>>::value);
static_assert(broken(of_two_optimizers::choices::value) == "one_optimizer");
static_assert(broken_rules(of_two_optimizers::choices::value) == 1);
static_assert(of_two_optimizers::broken >= 0 && composition<optimizer::sgd>::broken < 0);
static_assert(broken(composition_of<precision::fp64, optimizer::sgd, accumulate<4>, checkpoint::every<2>>()) == "");
static_assert(broken(composition_of<accumulate<0>>()) == "some_micro_batches");
static_assert(broken(composition_of<checkpoint::every<0>>()) == "some_iterations");
static_assert(broken(composition_of<checkpoint::keep<op::attention, op::gelu>>()) == "only_ops_are_kept");
static_assert(broken(composition_of<checkpoint::budget<bytes(0)>>()) == "some_bytes");
static_assert(broken(composition_of<fusion::none, fusion::automatic>()) == "one_fusion");
static_assert(broken(composition_of<bare>()) == "optimizer_state");
static_assert(broken(composition_of<float>()) == "known_policies");
static_assert(broken(composition_of<optimizer::muon<optimizer::averaged<optimizer::adamw>>>()) == "optimizer_nesting");
static_assert(broken(composition_of<optimizer::averaged<optimizer::muon<optimizer::muon<>>>>()) == "optimizer_nesting");
static_assert(broken(composition_of<optimizer::averaged<optimizer::muon<>>>()) == "");
static_assert(broken(composition_of<optimizer::averaged<optimizer::averaged<optimizer::adamw>>>()) ==
              "optimizer_nesting");
static_assert(broken(composition_of<optimizer::muon<optimizer::adamw, 0>>()) == "muon_steps");
static_assert(broken(composition_of<optimizer::averaged<optimizer::muon<optimizer::adamw, 100>>>()) == "muon_steps");
using states_twice = optimizer::states_in<dtype::bf16, optimizer::states_in<dtype::f32, optimizer::adamw>>;
static_assert(broken(composition_of<states_twice>()) == "optimizer_nesting");
static_assert(!value_of<parallel::mesh<parallel::tensor<1>, parallel::tensor<2>>>().combines);
static_assert(!value_of<parallel::mesh<int, accumulate<2>>>().combines &&
              value_of<device::cuda<int>>().capability == 0);
// At most 1024 ranks; the other rule is that this program has no MPI.
constexpr std::string_view broken_by_ranks(auto c) {
  c.has_mpi = true;
  return broken(c);
}
static_assert(broken_by_ranks(composition_of<parallel::zero<1, 1024>>()) == "");
static_assert(broken_by_ranks(composition_of<parallel::zero<1, 1025>>()) == "not_too_many_ranks");
static_assert(broken_by_ranks(composition_of<parallel::tensor<1024>>()) == "");
static_assert(broken_by_ranks(composition_of<parallel::tensor<1025>>()) == "not_too_many_ranks");
template <int shards, int ranks> using mesh_of = parallel::mesh<parallel::zero<3, shards>, parallel::tensor<ranks>>;
static_assert(broken_by_ranks(composition_of<mesh_of<64, 16>>()) == "");
static_assert(broken_by_ranks(composition_of<mesh_of<64, 17>>()) == "not_too_many_ranks");
static_assert(broken_by_ranks(composition_of<mesh_of<65'536, 65'536>>()) == "not_too_many_ranks");
static_assert(composition_of<accumulate<2>, fusion::none>() == composition_of<fusion::none, accumulate<2>>());
static_assert(!(composition_of<accumulate<2>>() == composition_of<accumulate<3>>()));

} // namespace

TEST_CASE("a rule is broken exactly where the composition is not legal") {
  long all = 0, refused = 0;
  for_each_composition(
      [&](composed const& c, bool is_legal) {
        ++all;
        refused += is_legal ? 0 : 1;
        if ((broken_rule(c) == nullptr) != is_legal || (broken_rules(c) == 0) != is_legal)
          FAIL("the table and the test disagree");
      },
      composed{});
  MESSAGE(all << " compositions, " << all - refused << " legal");
  CHECK(all > 100'000);
  CHECK(refused > 0);
  CHECK(refused < all);
}

TEST_CASE("every rule is broken alone by some composition, and says what to write") {
  std::map<std::string, int> alone;
  for_each_composition(
      [&](composed const& c, bool) {
        if (broken_rules(c) == 1) ++alone[broken_rule(c)->name];
      },
      composed{});
  std::map<std::string, int> sentences;
  for (auto const& rule : policy_rules) {
    CAPTURE(std::string(rule.name));
    CHECK(alone[rule.name] > 0);
    std::string const sentence = rule.sentence;
    CHECK(++sentences[sentence] == 1);
    // What, and after it what to write instead.
    CHECK(sentence.find(':') != std::string::npos);
    bool advises = false;
    for (auto const* word : {"write", "keep", "link"}) advises = advises || sentence.find(word) != std::string::npos;
    CHECK(advises);
  }
  CHECK(alone.size() == std::size(policy_rules));
}

TEST_CASE("the first broken rule is the one that is told") {
  auto c = of_two_optimizers::choices::value;
  static_cast<said<slot_of::precision>&>(c).given = 2;
  CHECK(std::string(broken_rule(c)->name) == "one_precision");
}
