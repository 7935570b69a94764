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
struct adamw_like {
  float learning_rate = 0.5f, beta = 0.25f, weight_decay = 0;
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
