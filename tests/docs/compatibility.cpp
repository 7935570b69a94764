// Prints docs/compatibility.md: which policies may stand together, asked of the table of rules itself.

// The page is the same whether or not MPI and nvcc are found here.
#if !defined(CONSTRAIN_WITH_MPI)
#define CONSTRAIN_WITH_MPI
#endif
#define CONSTRAIN_WITH_CUDA
#include <constrain/policy/policies.hpp>

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
struct no_update {
  struct hyper {};
  template <class real> struct state {};
};

template <class policy> struct named {
  using type = policy;
  char const* name;
};

// One of each slot's kinds stands for all of its numbers.
constexpr std::tuple representatives{
    named<ct::precision::fp32>{"precision::fp32"},   named<ct::precision::bf16>{"precision::bf16"},
    named<ct::precision::fp64>{"precision::fp64"},
    named<ct::optimizer::adamw>{"optimizer::adamw"}, named<ct::optimizer::sgd>{"optimizer::sgd"},
    named<ct::optimizer::momentum>{"optimizer::momentum"}, named<ct::optimizer::nesterov>{"optimizer::nesterov"},
    named<ct::accumulate<4>>{"accumulate<4>"},       named<ct::checkpoint::none>{"checkpoint::none"},
    named<ct::checkpoint::every<2>>{"checkpoint::every<2>"}, named<ct::parallel::ddp>{"parallel::ddp"},
    named<ct::parallel::zero<3, 2>>{"parallel::zero<3, 2>"}, named<ct::device::cuda<ct::sm<90>>>{"device::cuda<sm<90>>"},
    named<ct::launch::graph>{"launch::graph"},
    named<ct::attention::flash>{"attention::flash"}, named<ct::attention::reference>{"attention::reference"},
    named<ct::fusion::automatic>{"fusion::automatic"}, named<ct::fusion::all>{"fusion::all"}, named<ct::fusion::none>{"fusion::none"}};

constexpr std::tuple refused_alone{named<ct::accumulate<0>>{"`accumulate<0>`"},
                                   named<ct::checkpoint::every<0>>{"`checkpoint::every<0>`"},
                                   named<ct::parallel::zero<1, 2>>{"`parallel::zero<1, 2>`"},
                                   named<ct::parallel::zero<3, 0>>{"`parallel::zero<3, 0>`"},
                                   named<ct::device::cuda<ct::sm<75>>>{"`device::cuda<sm<75>>`"},
                                   named<ct::launch::graph>{"`launch::graph` without `device::cuda`"},
                                   named<no_state>{"an optimizer without `state`"},
                                   named<no_update>{"an optimizer without `update`"},
                                   named<no_policy>{"a type that is no policy"}};

template <class tuple, class function> void for_each(tuple const& all, function const& f) {
  std::apply([&](auto const&... each) { (f(each), ...); }, all);
}

std::vector<std::string_view> broken; // rules that some row of the page breaks

std::string judged(ct::composition const& c) {
  auto const* rule = ct::broken_rule(c);
  if (rule == nullptr) return "yes";
  broken.push_back(rule->name);
  return std::string("`") + rule->name + "`";
}

template <class... list> bool legal() { return ct::broken_rule(ct::composition_of<list...>()) == nullptr; }

/// As Markdown: outside of code `<` would begin a tag.
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

/// Tries one choice for every slot, with accumulation and without, in one process and in several, and on CUDA.
template <class fusion> void count_compositions(int& legal_ones, int& all) {
  for_each(representatives, [&](auto p) {
    for_each(representatives, [&](auto o) {
      for_each(representatives, [&](auto c) {
        using precision = typename decltype(p)::type;
        using optimizer = typename decltype(o)::type;
        using checkpointing = typename decltype(c)::type;
        if constexpr (ct::count_in_slot<ct::slot_of::precision, precision> == 1 &&
                      ct::count_in_slot<ct::slot_of::optimizer, optimizer> == 1 &&
                      ct::count_in_slot<ct::slot_of::checkpointing, checkpointing> == 1) {
          using cuda = ct::device::cuda<ct::sm<90>>;
          all += 7;
          legal_ones += legal<precision, optimizer, checkpointing, fusion>() +
                        legal<precision, optimizer, checkpointing, fusion, ct::accumulate<4>>() +
                        legal<precision, optimizer, checkpointing, fusion, ct::parallel::ddp>() +
                        legal<precision, optimizer, checkpointing, fusion, ct::accumulate<4>, ct::parallel::zero<3, 2>>() +
                        legal<precision, optimizer, checkpointing, fusion, cuda>() +
                        legal<precision, optimizer, checkpointing, fusion, cuda, ct::launch::graph>() +
                        legal<precision, optimizer, checkpointing, fusion, cuda, ct::parallel::ddp>();
        }
      });
    });
  });
}

} // namespace

int main() {
  std::puts("# Which policies may stand together\n\n"
            "A policy's slot is a property of its type. A trainer takes at most one policy of each slot, in any order, and\n"
            "the defaults fill the others: `precision::fp32`, `optimizer::adamw`, `accumulate<1>`, `checkpoint::none`,\n"
            "`parallel::none`, `device::cpu`, `launch::eager`, `attention::flash` and `fusion::automatic`. On a CUDA device the\n"
            "last two are `attention::reference` and `fusion::none`.\n\n"
            "This page is printed by `tests/docs/compatibility.cpp` from the rules in\n"
            "`include/constrain/policy/rules.hpp`. The test `docs.compatibility` fails where the page is out of date.\n\n"
            "## Two policies in one trainer\n\n"
            "`yes`, or the rule that refuses the pair.\n");
  std::string header = "| |", line = "|---|";
  for_each(representatives, [&](auto const& column) {
    header += std::string(" `") + column.name + "` |";
    line += "---|";
  });
  std::puts((header + "\n" + line).c_str());
  for_each(representatives, [&](auto const& row) {
    std::string text = std::string("| `") + row.name + "` |";
    for_each(representatives, [&](auto const& column) {
      using one = typename std::remove_cvref_t<decltype(row)>::type;
      using other = typename std::remove_cvref_t<decltype(column)>::type;
      text += " " + judged(ct::composition_of<one, other>()) + " |";
    });
    std::puts(text.c_str());
  });
  int legal_ones = 0, all = 0;
  count_compositions<ct::fusion::automatic>(legal_ones, all);
  count_compositions<ct::fusion::none>(legal_ones, all);
  std::printf("\nOf the %d ways to choose one of these policies for every slot, %d are legal.\n", all, legal_ones);

  std::puts("\n## Refused on its own\n\n| policy | rule |\n|---|---|");
  for_each(refused_alone, [&](auto const& one) {
    using policy = typename std::remove_cvref_t<decltype(one)>::type;
    auto const rule = judged(ct::composition_of<policy>());
    std::printf("| %s | %s |\n", one.name, rule.c_str());
  });
  auto without_mpi = ct::composition_of<ct::parallel::ddp>();
  without_mpi.has_mpi = false;
  std::printf("| `parallel::ddp` without MPI | %s |\n", judged(without_mpi).c_str());
  auto without_nvcc = ct::composition_of<ct::device::cuda<ct::sm<90>>>();
  without_nvcc.has_cuda = false;
  std::printf("| `device::cuda<sm<90>>` without nvcc | %s |\n", judged(without_nvcc).c_str());

  std::puts("\n## The rules\n\n| rule | what the compiler says where it is broken |\n|---|---|");
  for (auto const& rule : ct::policy_rules) std::printf("| `%s` | %s |\n", rule.name, escaped(rule.sentence).c_str());

  for (auto const& rule : ct::policy_rules) {
    bool shown = false;
    for (auto name : broken) shown = shown || name == rule.name;
    if (shown) continue;
    std::fprintf(stderr, "the page breaks the rule %s nowhere; add a row that does\n", rule.name);
    return 1;
  }
}
