#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <string>
#include <vector>

// Two optimizers of one's own are told apart where a run is saved and taken up.

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

/// As it was written before the optimizer's state was said.
void make_old(std::string const& path) {
  std::vector<std::string> contents;
  std::vector<std::string> const names{"model.safetensors", "config.json", "optimizer.safetensors", "state.json"};
  for (auto const& name : names) contents.push_back(ct::test::read_file(path + "/" + name));
  auto const begin = contents.back().find("\"optimizer_state\"");
  REQUIRE(begin != std::string::npos);
  contents.back().erase(begin, contents.back().find("\"seed\"") - begin);
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
  CHECK(loading<squares>(path) == "the checkpoint '" + path +
                                      "' is of another configuration: its optimizer is lion, the trainer's is "
                                      "squares; load it into a trainer of the same optimizer");
}

TEST_CASE("optimizers of one name are told apart by their states") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  CHECK(ct::policies<first>::optimizer_name() == "mine?[2J");
  save<first>(path);
  CHECK(loading<first>(path) == "");
  CHECK(loading<second>(path).find("its optimizer state is momentum, the trainer's is squares") != std::string::npos);
  CHECK(loading<third>(path).find("its optimizer state is 1 x fp32, the trainer's is 2 x fp32") != std::string::npos);
}

TEST_CASE("a run of before is taken up") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  save<ct::optimizer::adamw>(path);
  make_old(path);
  CHECK(loading<ct::optimizer::adamw>(path) == "");
}
