// Prints docs/compatibility.md: which policies go together, according to the table of rules.

// The page is the same whether or not this machine has MPI, NCCL and nvcc.
#if !defined(CONSTRAIN_WITH_MPI)
#define CONSTRAIN_WITH_MPI
#endif
#if !defined(CONSTRAIN_WITH_NCCL)
#define CONSTRAIN_WITH_NCCL
#endif
#define CONSTRAIN_WITH_CUDA
#include "../tolerances.hpp"

#include <constrain/policy/policies.hpp>
#include <constrain/policy/rule_table.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace ct = constrain;

namespace {

struct no_policy {};
struct no_state {
  struct hyper {};
};
struct whole_number {
  struct hyper {};
  template <class real> struct state { int steps; };
  template <class real> CT_HOST_DEVICE static real update(real, real, state<real>&, hyper const&, ct::optimizer_step);
};
struct no_update {
  struct hyper {};
  template <class real> struct state {};
};

template <class policy> struct type { using policy_type = policy; };

template <class... policies> constexpr auto tuple_of(ct::policy_list<policies...>) {
  return std::tuple(type<policies>{}...);
}

/// The examples of a slot: one policy of each kind, whatever its template arguments.
template <class slot> constexpr auto examples_of() {
  if constexpr (requires { typename slot::examples; }) return tuple_of(typename slot::examples{});
  else return std::tuple();
}
template <class slot> constexpr auto refused_of() {
  if constexpr (requires { typename slot::refused; }) return tuple_of(typename slot::refused{});
  else return std::tuple();
}
template <class... slots> constexpr auto all_examples(ct::slot_list<slots...>) {
  return std::tuple_cat(examples_of<slots>()...);
}
template <class... slots> constexpr auto all_refused(ct::slot_list<slots...>) {
  return std::tuple_cat(refused_of<slots>()...);
}

constexpr auto representatives = all_examples(ct::library_slots{});
constexpr auto refused_alone = all_refused(ct::library_slots{});

/// The type of a policy as Markdown code, such as `optimizer::adamw`, even if the policy has a shorter `name`.
template <class policy> std::string code_of() {
  auto name = ct::type_name<policy>();
  ct::detail::remove_all(name, "constrain::");
  return "`" + name + "`";
}

template <class tuple, class function> void for_each(tuple const& all, function const& f) {
  std::apply([&](auto const&... each) { (f(each), ...); }, all);
}
template <class type> using policy_of = typename std::remove_cvref_t<type>::policy_type;

std::vector<std::string_view> broken; // names of the rules that the cells of the page show

using composed = decltype(ct::composition_of<>());

/// A cell of a table: "yes", or the name of the first broken rule.
std::string judged(composed const& c) {
  auto const* rule = ct::broken_rule(c);
  if (rule == nullptr) return "yes";
  broken.push_back(rule->name);
  return std::string("`") + rule->name + "`";
}

/// A sentence as Markdown: `<` outside of code would begin an HTML tag.
std::string escaped(std::string_view sentence) {
  std::string text;
  bool code = false;
  for (char c : sentence) {
    if (c == '`') code = !code;
    if (c == '<' && !code) text += "&lt;";
    else text += c;
  }
  return text;
}

/// Tries every composition of one example per slot, and counts all of them and the legal ones.
template <class first, class... rest>
void count_compositions(composed c, ct::slot_list<first, rest...>, int& legal, int& all) {
  auto const with = [&] {
    if constexpr (sizeof...(rest) == 0) ++all, legal += ct::broken_rule(c) == nullptr ? 1 : 0;
    else count_compositions(c, ct::slot_list<rest...>{}, legal, all);
  };
  if constexpr (!requires { typename first::examples; }) with();
  for_each(examples_of<first>(), [&](auto example) {
    static_cast<first&>(c) = ct::value_of<policy_of<decltype(example)>>();
    with();
  });
}

/// The default of each slot: "`precision::fp32`, `optimizer::adamw`, ...".
template <class... slots> std::string defaults(ct::slot_list<slots...>) {
  std::string text;
  auto const append = [&]<class slot>(ct::slot_list<slot>) {
    if constexpr (requires { typename slot::examples; })
      text += (text.empty() ? "" : ", ") + code_of<ct::policy_in<slot>>();
  };
  (append(ct::slot_list<slots>{}), ...);
  return text;
}

using cuda = ct::device::cuda<ct::sm<90>>;

void print_beginning() {
  std::puts(
      "# Which policies go together\n\n"
      "A policy is a type that chooses how a model is trained. Each policy belongs to a slot, which is one decision,\n"
      "such as the precision. A trainer takes at most one policy of each slot, in any order. For the other slots, it\n"
      "uses these defaults:\n");
  std::printf("%s.\n\n", defaults(ct::library_slots{}).c_str());
  std::puts(
      "`attention::automatic` and `fusion::automatic` choose only ops that have kernels for the device. If a\n"
      "trainer's program calls an op without a kernel for the device, the compiler reports that op and the line of\n"
      "the call in the model. Of the library's ops, only those of `parallel::tensor` have no CUDA kernels, and a\n"
      "rule refuses this policy on a CUDA device. So this error can concern only your own ops.\n\n"
      "`tests/docs/compatibility.cpp` generates this page from the slots in `include/constrain/policy/slots.hpp` and\n"
      "the rules between them in `include/constrain/policy/rules.hpp`. The test `docs.compatibility` fails if the\n"
      "page is out of date.\n\n"
      "## Two policies in one trainer\n\n"
      "A cell is `yes` if no rule refuses both policies in one trainer, with the defaults in the other slots.\n"
      "Otherwise it is the name of the first broken rule; [the rules](#the-rules) are at the end of the page. The\n"
      "default device is the CPU, so `launch::graph` is refused with every policy except a CUDA device.\n");
}

void print_tolerances() {
  std::puts(
      "## How far a run may be from fp32\n\n"
      "A test trains a small GPT for 8 steps with every legal pair of the policies in `tests/comm/pairs.hpp`. It\n"
      "compares the loss with the loss of a run in fp32, with the same optimizer and the same frozen roles, and the\n"
      "defaults in the other slots. The table shows the maximum difference of the two losses, as a fraction of the\n"
      "decrease of the loss in fp32, or of 1 % of this loss if it decreases less:\n\n"
      "| precision | difference |\n|---|---:|");
  for (auto const& t : ct::test::tolerances) std::printf("| `precision::%s` | %g |\n", t.precision, t.of_decrease);
  std::printf(
      "\nWith `lion`, which takes signs, the fraction is at least %g. Recomputation, the stages of ZeRO (2 and 3 with\n"
      "one micro-batch) and a resume change no bit.\n\n",
      ct::test::tolerance_of_signs);
}

void print_pairs() {
  std::string header = "| |", line = "|---|";
  for_each(representatives, [&](auto const& column) {
    header += " " + code_of<policy_of<decltype(column)>>() + " |";
    line += "---|";
  });
  std::puts((header + "\n" + line).c_str());
  for_each(representatives, [&](auto const& row) {
    using one = policy_of<decltype(row)>;
    std::string text = "| " + code_of<one>() + " |";
    for_each(representatives, [&](auto const& column) {
      text += " " + judged(ct::composition_of<one, policy_of<decltype(column)>>()) + " |";
    });
    std::puts(text.c_str());
  });
  int legal = 0, all = 0;
  auto c = ct::composition_of<>();
  count_compositions(c, ct::library_slots{}, legal, all);
  std::printf("\nOf the %d ways to choose one of these policies for every slot, %d are legal.\n", all, legal);
}

void print_refused_alone() {
  std::puts("\n## What else is refused\n\n| template argument of the trainer | broken rule |\n|---|---|");
  auto const refused = [&]<class policy>(type<policy>, std::string const& name) {
    std::printf("| %s | %s |\n", name.c_str(), judged(ct::composition_of<policy>()).c_str());
  };
  for_each(refused_alone, [&](auto one) { refused(one, code_of<policy_of<decltype(one)>>()); });
  refused(type<ct::launch::graph>{}, "`launch::graph` without `device::cuda`");
  refused(type<no_state>{}, "an optimizer without `state`");
  refused(type<whole_number>{}, "an optimizer whose `state` has a field of type int");
  refused(type<no_update>{}, "an optimizer without `update`");
  refused(type<ct::optimizer::quantized<ct::optimizer::adafactor>>{},
          "`optimizer::quantized<O>` of an optimizer `O` with a rule");
  refused(type<ct::optimizer::muon<ct::optimizer::averaged<ct::optimizer::adamw>>>{},
          "`optimizer::muon` around `averaged`, and `averaged`, `muon` or `states_in` inside itself");
  refused(type<ct::optimizer::states_in<ct::dtype::i32, ct::optimizer::adamw>>{},
          "`optimizer::states_in<type, O>` with a type other than fp32 or bf16");
  refused(type<ct::optimizer::muon<ct::optimizer::adamw, 0>>{},
          "`optimizer::muon<O, steps>` with another number of steps than 1 to 99");
  refused(type<ct::optimizer::averaged<ct::optimizer::in_backward<ct::optimizer::adamw>>>{},
          "`optimizer::in_backward<O>` inside another optimizer");
  refused(type<no_policy>{}, "a type that is not a policy");
  auto without_mpi = ct::composition_of<ct::parallel::ddp>();
  without_mpi.has_mpi = false;
  std::printf("| `parallel::ddp` without MPI | %s |\n", judged(without_mpi).c_str());
  auto without_nccl = ct::composition_of<ct::parallel::ddp, cuda>();
  without_nccl.has_nccl = false;
  std::printf("| `parallel::ddp` and `device::cuda<sm<90>>` without NCCL | %s |\n", judged(without_nccl).c_str());
  auto without_nvcc = ct::composition_of<cuda>();
  without_nvcc.compiled = false;
  std::printf("| `device::cuda<sm<90>>` without nvcc | %s |\n", judged(without_nvcc).c_str());
}

} // namespace

int main() {
  print_beginning();
  print_pairs();
  print_refused_alone();
  std::puts("");
  print_tolerances();
  std::puts("## The rules\n\n| rule | the compiler's sentence if the rule is broken |\n|---|---|");
  for (auto const& rule : ct::policy_rules) std::printf("| `%s` | %s |\n", rule.name, escaped(rule.sentence).c_str());

  for (auto const& rule : ct::policy_rules) {
    bool shown = false;
    for (auto name : broken) shown = shown || name == rule.name;
    if (shown) continue;
    std::fprintf(stderr, "the page breaks the rule %s nowhere; add a row that does\n", rule.name);
    return 1;
  }
}
