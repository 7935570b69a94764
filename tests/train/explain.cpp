#include "policy/small_gpt.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

namespace ct = constrain;
using ct::test::small_gpt;

namespace {

/// Descends along the momentum. It cannot decay weights.
struct without_decay {
  struct hyper {
    float learning_rate = 1e-2f;
  };
  template <class real> struct state { real momentum; };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.momentum = s.momentum / 2 + gradient;
    return weight - real(h.learning_rate) * s.momentum;
  }
};

/// The dtypes of the optimizer states in the text of `explain`.
template <class... policies> std::string state_types() {
  auto const text = ct::explanation<ct::trainer<small_gpt, policies...>>();
  std::string const before = "optimizer state ";
  auto const begin = text.find(before, text.find("dtypes")) + before.size();
  return text.substr(begin, text.find(", loss", begin) - begin);
}

} // namespace

TEST_CASE("explain names the dtypes in which optimizer states are stored") {
  namespace o = ct::optimizer;
  using in_bf16 = o::states_in<ct::dtype::bf16, o::adamw>;
  CHECK(state_types<>() == "f32");
  CHECK(state_types<ct::precision::fp64>() == "f64");
  CHECK(state_types<o::sgd>() == "none");
  CHECK(state_types<in_bf16>() == "bf16");
  CHECK(state_types<in_bf16, ct::precision::pure_bf16>() == "bf16");
  CHECK(state_types<o::quantized<o::adamw, o::everything>>() == "u8, f32"); // a byte per element, a scale per block
  CHECK(state_types<o::averaged<in_bf16>>() == "bf16, f32");
}

TEST_CASE("explain marks the parameters that decay only if their optimizer has a weight decay") {
  namespace o = ct::optimizer;
  auto const decaying = []<class optimizer>(std::type_identity<optimizer>) {
    auto const text = ct::explanation<ct::trainer<small_gpt, optimizer>>();
    int count = 0;
    for (auto at = text.find("  decays\n"); at != text.npos; at = text.find("  decays\n", at + 1)) ++count;
    return count;
  };
  int const all = decaying(std::type_identity<o::sgd>{});
  CHECK(all > 4);
  CHECK(decaying(std::type_identity<o::by_role<o::adamw>>{}) == all);
  CHECK(decaying(std::type_identity<o::quantized<o::adamw, o::everything>>{}) == all);
  CHECK(decaying(std::type_identity<without_decay>{}) == 0);
  CHECK(decaying(std::type_identity<o::by_role<without_decay>>{}) == 0);
  CHECK(decaying(std::type_identity<o::averaged<o::quantized<without_decay, o::everything>>>{}) == 0);
  int const matrices = decaying(std::type_identity<o::muon<without_decay>>{}); // not the embeddings
  CHECK(matrices > 0);
  CHECK(matrices < all);
}

TEST_CASE("explain says which parameters pure_bf16 stores in which type") {
  auto const begins = [](std::string const& text, char const* expected) {
    return text.substr(text.find("dtypes")).starts_with(expected);
  };
  CHECK(begins(ct::explanation<ct::trainer<small_gpt, ct::precision::pure_bf16>>(),
               "dtypes      matrices bf16 without masters, biases and norms f32, compute and activations bf16, "));
  CHECK(begins(ct::explanation<ct::trainer<small_gpt, ct::precision::bf16>>(),
               "dtypes      master f32, compute and activations bf16, "));
}
