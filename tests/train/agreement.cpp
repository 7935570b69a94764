#include <constrain/policy/optimizer/adamw.hpp>
#include <constrain/policy/optimizer/by_role.hpp>
#include <constrain/train/agreement.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ct = constrain;
namespace detail = constrain::detail;

namespace {

enum class kind : unsigned char { first, second };
struct one {
  float a = 1;
};
struct made_from_another {
  float learning_rate = 2;
  kind which = kind::second;
  one base{};
};
struct with_array {
  float a = 1;
  float b[2]{};
};
struct range {
  float first = 3, last = 4;
};
union number_or_text {
  int number = 0;
  char const* text;
};
struct with_structs {
  made_from_another base{}; // visited once, by its name
  kind which = kind::second;
  range inner{};
  number_or_text neither{};
  std::string name = "not a number";
  made_from_another other{};
};
struct adamw_like {
  float learning_rate = 0.5f, beta = 0.25f, weight_decay = 0;
};

/// An optimizer whose hyperparameters are not all float.
struct own {
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 1;
    bool flips = false;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.flips ? -h.learning_rate : h.learning_rate) * gradient;
  }
};

std::string shown(ct::fingerprint const& f) {
  auto text = f.text();
  for (char& c : text)
    if (c == '\0') c = '|';
  return text;
}

} // namespace

TEST_CASE("an optimizer's hyperparameters stand in a fingerprint by name or place") {
  ct::fingerprint f;
  detail::add_hyper(f, adamw_like{});
  CHECK(shown(f) ==
        ".learning_rate of the optimizer|0.5|.weight_decay of the optimizer|0|field 1 of hyper of the optimizer|0.5|"
        "field 2 of hyper of the optimizer|0.25|field 3 of hyper of the optimizer|0|");
  ct::fingerprint g;
  detail::add_hyper(g, with_array{});
  CHECK(shown(g) ==
        "field 1 of hyper of the optimizer|1|field 2 of hyper of the optimizer|0|field 3 of hyper of the optimizer|0|");
  ct::fingerprint h;
  detail::add_hyper(h, made_from_another{});
  CHECK(shown(h) == ".learning_rate of the optimizer|2|field 1 of hyper of the optimizer|2|"
                    "field 2 of hyper of the optimizer|1|field 1 of hyper of the base of the optimizer|1|");
}

TEST_CASE("the numbers of a struct in an optimizer's hyperparameters stand in a fingerprint") {
  ct::fingerprint f;
  detail::add_hyper(f, with_structs{});
  CHECK(shown(f) == "field 2 of hyper of the optimizer|1|"
                    "field 1 of field 3 of hyper of the optimizer|3|field 2 of field 3 of hyper of the optimizer|4|"
                    ".learning_rate of field 6 of hyper of the optimizer|2|"
                    "field 1 of field 6 of hyper of the optimizer|2|field 2 of field 6 of hyper of the optimizer|1|"
                    "field 1 of field 6 of hyper of the base of the optimizer|1|"
                    ".learning_rate of the base of the optimizer|2|field 1 of hyper of the base of the optimizer|2|"
                    "field 2 of hyper of the base of the optimizer|1|"
                    "field 1 of hyper of the base of the base of the optimizer|1|");
}

TEST_CASE("the factors of optimizer::by_role stand in a fingerprint, whatever the base is") {
  auto const text = [](auto const& hyper) {
    ct::fingerprint f;
    detail::add_hyper(f, hyper);
    return shown(f);
  };
  using of_own = ct::optimizer::by_role<own>::hyper;
  CHECK(text(of_own{.head = {.learning_rate = 30}}).find(".learning_rate of field 6 of hyper of the optimizer|30|") !=
        std::string::npos);
  using of_adamw = ct::optimizer::by_role<ct::optimizer::adamw>::hyper;
  CHECK(text(of_adamw{.head = {.learning_rate = 30}}) != text(of_adamw{}));
}

TEST_CASE("a NUL byte in a value does not end it") {
  ct::fingerprint f;
  f.add(".directory", std::string("'a\0b'", 5)), f.add(".keep_last", 1);
  CHECK(shown(f) == ".directory|'a?b'|.keep_last|1|");
}

TEST_CASE("one process agrees with itself and throws its own exception") {
  ct::self alone;
  ct::fingerprint f;
  f.add("field", 1);
  ct::check_ranks_agree(alone, ct::joint_call::fit, f);
  CHECK(ct::agreed_sum(alone, ct::joint_call::step, [] { return std::int64_t{3}; }) == 3);
  CHECK_THROWS_AS(ct::agreed(alone, ct::joint_call::step, [] { throw 1; }), int);
  CHECK_THROWS_AS(ct::run_or_end_job(alone, ct::joint_call::step, [] { throw 1; }), int);
  CHECK_THROWS_AS(ct::agreement(alone, ct::joint_call::load).run([](ct::agreement& a) { a.all_can(), throw 1; }), int);
}
