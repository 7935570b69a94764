#include "plans.hpp"

namespace ct = constrain;
using plans = ct::test::plans<ct::llama3_8b>;

static_assert(plans::n == 8'030'261'248);
static_assert(ct::test::consists_of(ct::llama3_1_8b).parameters() == plans::n);
static_assert(plans::smallest::memory.peak < ct::gibibytes(22)); // a GPU of 24 GB trains all of it

TEST_CASE("plans of Llama 3 8B") { plans::print(); }
