#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <vector>

namespace ct = constrain;

namespace {

struct linear_model {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 1}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 1); }
};
using regression = ct::task<linear_model{}, ct::mean_squared_error, ct::micro_batch{.sequences = 1}>;
template <int micro_batches> using accumulating = ct::trainer<regression, ct::accumulate<micro_batches>>;

constexpr int many = 1'100'000;

// A trainer may be a local variable: what grows with the micro-batches is not inside it.
static_assert(sizeof(accumulating<many>) == sizeof(accumulating<1>));

} // namespace

TEST_CASE("more micro-batches than a stack has room for make one step") {
  accumulating<many> t;
  std::vector<float> const x(many, 1), y(many, 2);
  auto const r = t.step(t.batch(x, y));
  CHECK(r.tokens == many);
  CHECK(!r.skipped);
}
