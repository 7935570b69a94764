#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

// Two policies of one's own are told apart where a run is saved and taken up.

namespace ct = constrain;
using ct::test::sentence;

namespace {

struct hyper {
  float learning_rate = 1e-2f;
};

template <int fields> struct own {
  using hyper = ::hyper;
  template <class real> struct state { real field[fields]; };
  template <class real>
  static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.field[0] = s.field[0] / 2 + gradient;
    return weight - real(h.learning_rate) * s.field[0];
  }
};

// Both keep one number a weight, and nothing says what.
struct lion : own<1> {};
struct squares : own<1> {};
// These share a name.
struct first : own<1> {
  static constexpr char const* name = "mine\x1b[2J";
  static constexpr char const* state_names[] = {"momentum"};
};
struct second : own<1> {
  static constexpr char const* name = "mine\x1b[2J";
  static constexpr char const* state_names[] = {"squares"};
};
struct third : own<2> {
  static constexpr char const* name = "mine\x1b[2J";
};
struct rule {
  using hyper = ::hyper;
  static constexpr char const* name = third::name;
  static constexpr void update(ct::update_rule& u) { u.assign(u.parameter(), ct::add(u.parameter(), u.gradient())); }
};

// A precision and a launch policy, neither with a name.
struct own_precision {
  using slot = ct::slot_of::precision;
  static constexpr slot value{};
};
struct own_launch {
  using slot = ct::slot_of::launching;
  static constexpr slot value{};
};

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 16, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;

template <class optimizer> std::string loading(std::string const& path) {
  ct::trainer<task, optimizer> t;
  auto const said = sentence([&] { t.load(path); });
  CHECK(t.steps() == (said.empty() ? 1 : 0));
  return said;
}

template <class optimizer> void save(std::string const& path) {
  ct::trainer<task, optimizer> t;
  std::vector<std::int32_t> const tokens(4, 1);
  t.step(t.batch(tokens, tokens));
  t.save(path);
}

/// A saved run of the format before this one.
void make_old(std::string const& path) {
  std::vector<std::string> contents;
  std::vector<std::string> const names{"model.safetensors", "config.json", "optimizer.safetensors", "state.json"};
  for (auto const& name : names) contents.push_back(ct::test::read_file(path + "/" + name));
  std::string const version = "\"version\": 2";
  auto const begin = contents.back().find(version);
  REQUIRE(begin != std::string::npos);
  contents.back().replace(begin + version.size() - 1, 1, "1");
  ct::io::directory_writer writer(path);
  for (std::size_t i = 0; i < names.size(); ++i) writer.write(names[i], std::string_view(contents[i]));
  writer.commit();
}

} // namespace

TEST_CASE("optimizers without a name go by their types") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  save<lion>(path);
  CHECK(loading<lion>(path) == "");
  CHECK(loading<squares>(path) == "'" + path +
                                      "' does not match the trainer: its optimizer is lion, the trainer's is "
                                      "squares; load it into a trainer with the same optimizer");
}

TEST_CASE("a precision and a launch policy without a name go by their types") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  ct::trainer<task, own_precision, own_launch> t;
  ct::fit(t, ct::data::random_tokens(20, 16), {.steps = 1, .log = nullptr});
  t.save(path);
  t.load(path);
  CHECK(ct::detail::facts_of(t).launching == "own_launch");
  CHECK(loading<ct::optimizer::adamw>(path).find("its precision is own_precision, the trainer's is fp32") !=
        std::string::npos);
}

TEST_CASE("optimizers of one name are told apart by their states") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  CHECK(ct::policies<first>::optimizer_name() == "mine?[2J");
  save<first>(path);
  CHECK(loading<first>(path) == "");
  CHECK(loading<second>(path).find("its list of optimizer state names is momentum, the trainer's is squares") !=
        std::string::npos);
  CHECK(loading<third>(path).find("its optimizer state is 1 x fp32, the trainer's is 2 x fp32") != std::string::npos);
  CHECK(loading<rule>(path).find("its optimizer state is 1 x fp32, the trainer's is defined by an update rule") !=
        std::string::npos);
}

TEST_CASE("the tensors of an optimizer's state have its names") {
  ct::test::temporary_directory const directory;
  auto const names = [&]<class optimizer>(std::type_identity<optimizer>) {
    save<optimizer>(directory / "run");
    std::vector<std::string> found;
    auto const file = ct::io::safetensors_file::open(directory / "run/optimizer.safetensors");
    for (auto const& t : file.contents().tensors)
      if (t.name.starts_with("norm.bias")) found.push_back(t.name);
    std::sort(found.begin(), found.end());
    return found;
  };
  using list = std::vector<std::string>;
  CHECK(names(std::type_identity<ct::optimizer::adamw>{}) == list{"norm.bias.exp_avg", "norm.bias.exp_avg_sq"});
  CHECK(names(std::type_identity<ct::optimizer::momentum>{}) == list{"norm.bias.momentum_buffer"});
  CHECK(names(std::type_identity<ct::optimizer::sgd>{}).empty());
  CHECK(names(std::type_identity<first>{}) == list{"norm.bias.momentum"});
  CHECK(names(std::type_identity<third>{}) == list{"norm.bias.state0", "norm.bias.state1"}); // without names
}

TEST_CASE("a saved run of an older format is refused, and its weights can be loaded") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  save<ct::optimizer::adamw>(path);
  make_old(path);
  CHECK(loading<ct::optimizer::adamw>(path) ==
        "the saved run '" + path +
            "' has format version 1, but this library reads version 2; resume it with the library version that saved "
            "it, or load only its weights with load_pretrained");
  ct::trainer<task> t;
  CHECK(sentence([&] { t.load_pretrained(path); }).empty());
}
