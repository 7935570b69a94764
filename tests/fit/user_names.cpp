#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

// Functions in the namespace of a user's types, which argument-dependent lookup finds, do not replace the library's
// functions of the same names. This file must only compile.

namespace ct = constrain;

namespace user {

template <class... types> void add_hyper(types&&...) = delete;
template <class... types> void address_of_base(types&&...) = delete;
template <class... types> void check_fits_agree(types&&...) = delete;
template <class... types> void for_each_field(types&&...) = delete;
template <class... types> void for_each_hyperparameter(types&&...) = delete;
template <class... types> void learning_rate_of(types&&...) = delete;
template <class... types> void map_elements(types&&...) = delete;
template <class... types> void scale_learning_rates(types&&...) = delete;
template <class... types> void set_learning_rates(types&&...) = delete;
template <class... types> void steps_of_epochs(types&&...) = delete;
template <class... types> void visit_number(types&&...) = delete;

enum class kind { descent };

struct descent {
  static constexpr char const* name = "descent";
  template <class real> struct state {};
  struct hyper {
    struct {
      kind of = kind::descent;
    } options;
    float learning_rate = 1e-2f;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - h.learning_rate * gradient;
  }
};

struct halved {
  static constexpr char const* name = "halved";
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x / 2; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return dy / 2; }
};

struct bigram {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 8});
    return ct::linear("head", ct::elementwise<halved>(x), 256);
  }
};
using task = ct::task<bigram{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

} // namespace user

TEST_CASE("functions of a user's namespace do not replace the library's") {
  ct::trainer<user::task, ct::optimizer::averaged<user::descent>> t;
  auto const text = ct::data::text_from(std::string(200, 'a'));
  CHECK(ct::fit(t, text, {.epochs = 1, .log = nullptr}).steps > 0);
  CHECK(ct::steps_of_epochs(t, 1, text, ct::data::tail::drop, 100) > 0);
  CHECK(t.learning_rate() > 0);
}
