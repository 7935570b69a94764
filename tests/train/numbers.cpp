#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

// Every number of a run is looked at when it is given and when it is loaded.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

std::string text_of(double x) { return ct::detail::number_text(x); }

ct::data::corpus text() {
  std::string bytes;
  for (int i = 0; i < 400; ++i) bytes += static_cast<char>('a' + i * i % 23);
  return ct::data::corpus::from_bytes(bytes);
}

struct own {
  template <class real> struct state {};
  struct limits {
    float low, high;
  };
  struct hyper {
    float learning_rate = 1e-2f;
    float sharpness = 2;
    limits between{0, 1};
  };
  template <class real>
  static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.learning_rate) * gradient;
  }
};

struct mixed {
  struct hyper {
    double learning_rate = 1e-2;
    int period = 3;
    float betas[2] = {0.9f, 0.99f};
  };
};

/// Optimizers with fields of the library's names that are not numbers.
struct range_of_momentum {
  struct range {
    float first = 0.25f, last = 0.5f;
  };
  template <class real> struct state { real average; };
  struct hyper {
    float learning_rate = 0.5f;
    range momentum{};
    bool reverses = false;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step t) {
    s.average = real(t.number < 10 ? h.momentum.first : h.momentum.last) * s.average + gradient;
    return weight - real(h.learning_rate) * s.average;
  }
};
struct two_betas {
  enum class kind : unsigned char { first, second };
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 0.5f;
    float beta1[2] = {0.5f, 0.9f};
    float const* beta2 = nullptr;
    kind epsilon = kind::second;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.learning_rate) * real(h.beta1[0]) * gradient;
  }
};

struct with_check {
  struct hyper {
    int period = 3;
  };
  static void check(hyper const& h) { ct::check_count("with_check", ".period", h.period, 1); }
};

/// The sentence that refuses an optimizer's hyperparameters after change(hyperparameters); "" if they are accepted.
constexpr auto refused = []<class optimizer>(optimizer, auto const& change) {
  typename optimizer::hyper h;
  change(h);
  return sentence([&] { ct::detail::check_hyper<optimizer>(h, optimizer::name); });
};

} // namespace

TEST_CASE("numbers of a run") {
  for (double const bad : {not_a_number, -not_a_number, inf, -inf, -1.0, -1e-9}) {
    CHECK(sentence([&] { trainer({}, {.clip_norm = bad}); }) ==
          "run_options: .clip_norm is " + text_of(bad) + "; give a finite number of at least 0");
    CHECK(sentence([&] { trainer({}, {.schedule = ct::schedule::cosine{.steps = 5, .minimum = bad}}); }) ==
          "schedule::cosine: .minimum is " + text_of(bad) + "; give a number from 0 to 1");
  }
  for (double const bad : {not_a_number, inf, -1.0, 1.0, 2.0})
    CHECK(sentence([&] { trainer({}, {.dropout = bad}); }) ==
          "run_options: .dropout is " + text_of(bad) + "; give a number of at least 0 and below 1");
  for (double const bad : {not_a_number, -1.0, 0.0})
    CHECK(sentence([&] { trainer({}, {.deadline = bad}); }) ==
          "run_options: .deadline is " + text_of(bad) + " seconds; give more than 0 and at most 1e9");
  CHECK(sentence([&] { trainer({}, {.cuda_device = -77}); }) ==
        "run_options: .cuda_device is -77; give an integer of at least -1");
  int stream = 0;
  CHECK(sentence([&] { trainer({}, {.cuda_stream = &stream}); }) ==
        "run_options: .cuda_stream is set, but the device is the CPU, which has no streams; leave it null, or write "
        "device::cuda");
  CHECK(sentence([&] {
          trainer({}, {.schedule = ct::schedule::warmup_stable_decay{
                           .steps = 3, .decay = 1, .form = static_cast<ct::schedule::decay_form>(-1)}});
        }).starts_with("schedule::warmup_stable_decay: .form is neither "));
  CHECK(sentence([&] { trainer({}, {.schedule = ct::schedule::constant{.warmup = -1}}); }) ==
        "schedule::constant: .warmup is -1; give an integer of at least 0");
  CHECK(sentence([&] { trainer({}, {.schedule = ct::schedule::linear{.warmup = 3}}); }) ==
        "schedule::linear: .steps is 0; give an integer of at least 1");
  CHECK(sentence([&] {
          trainer({}, {.clip_norm = 1, .schedule = ct::schedule::linear{.warmup = 3, .steps = 3}, .dropout = 0.99});
        }) == "");
}

TEST_CASE("numbers of the library's optimizers") {
  constexpr auto fnan = std::numeric_limits<float>::quiet_NaN(), finf = std::numeric_limits<float>::infinity();
  for (float const bad : {fnan, finf, -finf, -0.1f}) {
    CHECK(sentence([&] { trainer({.learning_rate = bad}); }) ==
          "adamw: .learning_rate is " + text_of(bad) + "; give a finite number of at least 0");
    CHECK(
        refused(ct::optimizer::sgd{}, [&](auto& h) { h.learning_rate = bad; }).starts_with("sgd: .learning_rate is "));
    CHECK(
        refused(ct::optimizer::momentum{}, [&](auto& h) { h.momentum = bad; }).starts_with("momentum: .momentum is "));
    CHECK(refused(ct::optimizer::nesterov{}, [&](auto& h) {
            h.weight_decay = bad;
          }).starts_with("nesterov: .weight_decay is "));
    CHECK(refused(ct::optimizer::adamw{}, [&](auto& h) { h.epsilon = bad; }).starts_with("adamw: .epsilon is "));
  }
  for (float const bad : {fnan, 1.0f, -0.1f, 2.0f}) {
    CHECK(refused(ct::optimizer::adamw{}, [&](auto& h) { h.beta1 = bad; }) ==
          "adamw: .beta1 is " + text_of(bad) + "; give a number of at least 0 and below 1");
    CHECK(refused(ct::optimizer::adamw{}, [&](auto& h) { h.beta2 = bad; }).starts_with("adamw: .beta2 is "));
  }
  CHECK(refused(ct::optimizer::adamw{}, [](auto& h) { h.learning_rate = 0, h.beta1 = 0; }) == "");
  CHECK(refused(ct::optimizer::adamw{}, [](auto& h) { h.epsilon = 0; }) ==
        "adamw: .epsilon is 0; give a finite number above 0");
  CHECK(refused(ct::optimizer::adam{}, [](auto& h) { h.epsilon = 0; }).starts_with("adam: .epsilon is 0"));
}

TEST_CASE("finite numbers of the library's optimizers whose products are not finite, or soon") {
  constexpr auto most = std::numeric_limits<float>::max();
  CHECK(refused(ct::optimizer::adamw{}, [](auto& h) { h.learning_rate = most; }) ==
        "adamw: `prepare` computes inf from these hyperparameters for the first step; give hyperparameters closer to "
        "the defaults");
  CHECK(refused(ct::optimizer::adamw{}, [](auto& h) { h.learning_rate = h.weight_decay = 1e30f; }) != "");
  CHECK(refused(ct::optimizer::averaged<ct::optimizer::adamw>{}, [](auto& h) { h.base.learning_rate = most; }) != "");
  CHECK(refused(ct::optimizer::sgd{}, [](auto& h) { h.learning_rate = 1e30f; }) ==
        "sgd: three updates with these hyperparameters turn a weight of 1, whose gradient is 1, into -3.0000002e+30; "
        "give hyperparameters closer to the defaults");
  CHECK(refused(ct::optimizer::sgd{}, [](auto& h) { h.learning_rate = 1e3f; }) == "");
  CHECK(refused(ct::optimizer::lion{}, [](auto& h) { h.learning_rate = h.weight_decay = most; }) != "");
  CHECK(refused(ct::optimizer::momentum{}, [](auto& h) { h.momentum = most; }) != "");
  CHECK(refused(ct::optimizer::momentum{}, [](auto& h) { h.momentum = 1.5f; }) == "");
  CHECK(refused(ct::optimizer::nesterov{}, [](auto& h) { h.weight_decay = most; }) != "");
  CHECK(refused(ct::optimizer::averaged<ct::optimizer::lion>{}, [](auto& h) { h.base.learning_rate = most; }) != "");
  CHECK(refused(ct::optimizer::adafactor{}, [](auto& h) { h.learning_rate = most; }) ==
        "adafactor: updates with these hyperparameters can make a weight so large that its square is infinite in fp32; "
        "give hyperparameters closer to the defaults");
  CHECK(refused(ct::optimizer::adafactor{}, [](auto& h) { h.learning_rate = h.weight_decay = 1e15f; }) != "");
  CHECK(refused(ct::optimizer::adafactor_relative_step{}, [](auto& h) { h.epsilon2 = most; }) != "");
  CHECK(refused(ct::optimizer::adafactor{}, [](auto& h) { h.epsilon1 = h.clip_threshold = 1; }) == "");
  CHECK(
      refused(ct::optimizer::muon<>{}, [](auto& h) { h.b = most; }) ==
      "muon: a singular value of 1 becomes inf after 5 Newton-Schulz steps with these .a, .b and .c; give coefficients "
      "closer to the defaults");
  CHECK(refused(ct::optimizer::muon<>{}, [](auto& h) { h.a = 1e30f; }) != "");
  CHECK(refused(ct::optimizer::muon<ct::optimizer::adamw, 1>{}, [](auto& h) { h.a = 1e30f; }) ==
        "muon_steps_1: a singular value of 1 becomes 1.00000002e+30 after 1 Newton-Schulz step with these .a, .b and "
        ".c; give coefficients closer to the defaults");
  // 0.1, 0.5 and 1 stay finite, but not the values between them
  CHECK(refused(ct::optimizer::muon<>{}, [](auto& h) { h.a = -5.3125f, h.b = 31.5625f, h.c = -25.25f; }) ==
        "muon: a singular value of 0.998 becomes inf after 5 Newton-Schulz steps with these .a, .b and .c; give "
        "coefficients closer to the defaults");
  for (float const rate : {1e30f, 1e19f}) // of the wider matrices, the rate is a multiple of the learning rate
    CHECK(refused(ct::optimizer::muon<>{}, [&](auto& h) { h.learning_rate = rate; }) ==
          "muon: one update with these hyperparameters can change a weight of value 1 by more than 1e19; give "
          "hyperparameters closer to the defaults");
  CHECK(refused(ct::optimizer::muon<>{}, [](auto& h) { h.learning_rate = h.weight_decay = 1e15f; }) != "");
  CHECK(refused(ct::optimizer::muon<>{}, [](auto& h) { h.a = 1.5f, h.b = -0.5f, h.c = 0; }) == "");
  using by_role = ct::optimizer::by_role<ct::optimizer::adamw>;
  CHECK(refused(by_role{}, [](auto& h) { h.base.learning_rate = h.head.learning_rate = 1e30f; }) ==
        "by_role: .head.learning_rate times the same field of .base is inf; give them values whose product is finite");
  CHECK(refused(by_role{}, [](auto& h) {
          h.head.learning_rate = 1e30f;
        }).find("three updates with these hyperparameters turn a weight of 1") != std::string::npos);
  CHECK(refused(by_role{}, [](auto& h) { h.bias.learning_rate = 1e3f; }) == "");
  CHECK(refused(ct::optimizer::averaged<by_role>{}, [](auto& h) {
          h.base.norm.learning_rate = 1e30f;
        }).find("three updates with these hyperparameters") != std::string::npos);
  CHECK(refused(ct::optimizer::averaged<by_role>{}, [](auto& h) {
          h.base.base.weight_decay = h.base.norm.weight_decay = 1e30f;
        }).starts_with("by_role: .norm.weight_decay times"));
}

TEST_CASE("numbers of one's own optimizers") {
  auto const check = []<class optimizer>(optimizer, typename optimizer::hyper const& h) {
    return sentence([&] { ct::detail::check_hyper<optimizer>(h, "own"); });
  };
  constexpr auto fnan = std::numeric_limits<float>::quiet_NaN();
  CHECK(check(own{}, {}) == "");
  CHECK(check(own{}, {.learning_rate = -1}) == ""); // what it may be besides is the optimizer's affair
  CHECK(check(own{}, {.learning_rate = fnan}) == "own: .learning_rate is nan; give a finite number");
  CHECK(check(own{}, {.sharpness = fnan}) == "own: field 2 of hyper is nan; give a finite number");
  CHECK(check(own{}, {.between = {0, fnan}}) == "own: field 4 of hyper is nan; give a finite number");
  CHECK(check(mixed{}, {}) == "");
  CHECK(check(mixed{}, {.learning_rate = not_a_number}) == "own: .learning_rate is nan; give a finite number");
  CHECK(check(with_check{}, {}) == "");
  CHECK(check(with_check{}, {0}) == "with_check: .period is 0; give an integer of at least 1");
  static_assert(ct::detail::is_made_of<own::hyper, float> && !ct::detail::is_made_of<mixed::hyper, float>);
  static_assert(!ct::detail::is_made_of<with_check::hyper, float> && !ct::detail::is_made_of<own::hyper, double>);
}

TEST_CASE("numbers of one's own optimizers: fields that are not numbers") {
  static_assert(ct::is_optimizer<range_of_momentum> && ct::is_optimizer<two_betas>);
  auto const visited = [](auto const& hyper) {
    std::string text;
    ct::detail::for_each_hyperparameter(hyper, [&](std::string const& name, auto value) {
      text += name + " " + ct::detail::number_text(static_cast<double>(value)) + ", ";
    });
    return text;
  };
  CHECK(visited(range_of_momentum::hyper{}) ==
        ".learning_rate 0.5, field 1 of hyper 0.5, field 1 of field 2 of hyper 0.25, field 2 of field 2 of hyper 0.5, "
        "field 3 of hyper 0, ");
  CHECK(visited(two_betas::hyper{}) == ".learning_rate 0.5, .epsilon 1, ");
  CHECK(sentence([] { ct::detail::check_hyper<two_betas>({}, "own"); }) == "");
  using own_trainer = ct::trainer<task, range_of_momentum>;
  CHECK(sentence([] { own_trainer(); }) == "");
  constexpr auto fnan = std::numeric_limits<float>::quiet_NaN();
  CHECK(sentence([] {
          ct::detail::check_hyper<range_of_momentum>({.momentum = {0, fnan}}, "own");
        }) == "own: field 2 of field 2 of hyper is nan; give a finite number");
  CHECK(sentence([] { own_trainer({.learning_rate = std::numeric_limits<float>::infinity()}); }) != "");
}

TEST_CASE("numbers of fit, compare and generate") {
  trainer t;
  auto const corpus = text();
  auto const fit = [&](ct::fit_options options) {
    options.log = nullptr;
    return sentence([&] { ct::fit(t, corpus, options); });
  };
  auto const below = [](std::string const& field, int value) {
    return "fit_options: ." + field + " is " + std::to_string(value) + "; give an integer of at least 0";
  };
  CHECK(fit({.steps = -2}) == below("steps", -2));
  CHECK(fit({.evaluate_every = -2}) == below("evaluate_every", -2));
  CHECK(fit({.save_every = -2}) == below("save_every", -2));
  CHECK(fit({.keep_last = -3}) == below("keep_last", -3));
  CHECK(fit({.max_shard_size = ct::bytes(-5)}) ==
        "fit_options: .max_shard_size is -5 bytes; give at least 1 byte, or 0 for one file");
  CHECK(fit({.max_shard_size = ct::bytes(5)}) ==
        "fit: .max_shard_size splits the weights of saved runs, but .directory and .best are empty; name a directory");
  CHECK(fit({.patience = -4}) == below("patience", -4));
  CHECK(fit({.plateau = -5}) == below("plateau", -5));
  CHECK(fit({.save_every = ct::part_of_run{1, 0}}) ==
        "fit_options: .save_every is the part 1/0 of a run; give a numerator of at least 1 and a denominator of at "
        "least the numerator, for example part_of_run{1, 10}");
  CHECK(fit({.evaluate_every = ct::part_of_run{3, 1}}).starts_with("fit_options: .evaluate_every is the part 3/1 "));
  for (double const bad : {not_a_number, inf, 0.0, -0.5, 1.0, 1e10})
    CHECK(fit({.plateau_factor = bad}) ==
          "fit_options: .plateau_factor is " + text_of(bad) + "; give a number above 0 and below 1");
  CHECK(fit({.steps = 0, .tail = static_cast<ct::data::tail>(9)}) ==
        "fit_options: .tail is 9; give tail::carry, tail::drop or tail::pad");
  CHECK(
      fit({.evaluate_every = 2}) ==
      "fit: .evaluate_every says when to evaluate .validation, but .validation is not set; give a corpus or examples");
  CHECK(fit({.save_every = 2}) ==
        "fit: .save_every and .keep_last are for saves to .directory, but .directory is empty; name a directory");
  CHECK(fit({.keep_last = 2}).starts_with("fit: .save_every and .keep_last "));
  CHECK(fit({.validation = &corpus, .patience = 2}) ==
        "fit: .patience and .plateau count evaluations, but .evaluate_every is 0, so the only evaluation is at the "
        "end; set .evaluate_every");
  CHECK(t.steps() == 0);
  auto const compared = [](ct::compare_options const& o) { return sentence([&] { ct::detail::check_comparison(o); }); };
  CHECK(compared({}) == "");
  CHECK(compared({.tokens = 0}) == "compare_options: .tokens is 0; give an integer of at least 1");
  CHECK(compared({.learning_rate = not_a_number}) ==
        "compare_options: .learning_rate is nan; give a finite number of at least 0");
  CHECK(compared({.learning_rate = 1e39}) ==
        "compare_options: .learning_rate is 1e+39; give a number that is finite in fp32");
  CHECK(compared({.validation_fraction = 1.5}) ==
        "compare_options: .validation_fraction is 1.5; give a number above 0 and at most 1");
  CHECK(compared({.validation_fraction = 1}) == "");
  CHECK(compared({.validation_tokens = -1}) ==
        "compare_options: .validation_tokens is -1; give an integer of at least 1");
  CHECK(sentence([&] { t.generate("a", -1); }) ==
        "generate: the number of tokens is -1; give an integer of at least 0");
  CHECK(sentence([&] { t.generate("a", 3, {.temperature = not_a_number}); }) ==
        "generate_options: .temperature is nan; give a finite number of at least 0");
  CHECK(
      sentence([&] { t.generate("a", 3, {.temperature = -1}); }).starts_with("generate_options: .temperature is -1; "));
  CHECK(sentence([&] { t.generate("a", 3, {.top_k = -1}); }) ==
        "generate_options: .top_k is -1; give an integer of at least 0");
}

TEST_CASE("kinds of labels, of an epoch's end and of sums over ranks that do not exist") {
  trainer t;
  for (int const bad : {-1, 2, 7})
    CHECK(sentence([&] { trainer({}, {.reduce = static_cast<ct::reduce>(bad)}); }) ==
          "run_options: .reduce is " + std::to_string(bad) + "; give reduce::ordered or reduce::fast");
  std::vector<std::int32_t> const tokens(16, 3);
  CHECK(sentence([&] { t.batch(tokens, tokens, static_cast<ct::labels>(9)); }) ==
        "batch: the kind of labels is 9; give labels::shifted or labels::shift");
  CHECK(sentence([&] { t.batches(text(), static_cast<ct::data::tail>(9)); }) ==
        "batches: the tail is 9; give tail::carry, tail::drop or tail::pad");
}

TEST_CASE("the learning-rate factor") {
  trainer t;
  for (double const bad : {not_a_number, inf, 0.0, -1.0})
    CHECK(sentence([&] { t.scale_learning_rate(bad); }) ==
          "scale_learning_rate: the factor is " + text_of(bad) + "; give a finite number above 0");
  t.scale_learning_rate(1e8);
  CHECK(sentence([&] { t.scale_learning_rate(100); }) ==
        "scale_learning_rate: the factor of all calls together is 1e+10; give factors whose product is at most 1e+09");
  CHECK(t.state().learning_rate_factor == 1e8);
  for (int i = 0; i < 500; ++i) t.scale_learning_rate(0.1); // a long plateau
  CHECK(t.state().learning_rate_factor > 0);
}
