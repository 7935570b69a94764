#include "simulate.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

TEST_CASE("no value lies where another one lives, whatever the loops (random programs)") {
  int checked = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    auto const p = random_model(seed).build();
    if (!p.failure.ok()) continue;
    for (int micro_batches : {1, 3})
      for (int every : {0, 1, 2, 3}) {
        CAPTURE(seed);
        CAPTURE(micro_batches);
        CAPTURE(every);
        auto const o = optimized(p, micro_batches);
        REQUIRE(verify(o).ok());
        auto const r = recompute(o, every);
        CHECK(verify(r).ok());
        auto const c = coalesce(r);
        CHECK(verify(c).ok());
        auto const f = in_place(c);
        CHECK(verify(f).ok());
        struct { char const* name; program const& p; } const stages[] = {{"recomputed", r}, {"coalesced", c}, {"in place", f}};
        auto const reference = simulate(o, place(o));
        for (auto const& stage : stages) {
          CAPTURE(std::string(stage.name));
          auto const s = simulate(stage.p, place(stage.p));
          CHECK(s.errors == std::vector<std::string>{});
          // The same numbers, bit for bit.
          CHECK(s.left == reference.left);
          ++checked;
        }
      }
  }
  CHECK(checked > 1000);
}
