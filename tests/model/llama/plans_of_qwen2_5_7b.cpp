#include "plans.hpp"

namespace ct = constrain;
using plans = ct::test::plans<ct::qwen2_5_7b>;

static_assert(plans::n == 7'615'616'512);
static_assert(plans::smallest::memory.peak < ct::gibibytes(22)); // a GPU of 24 GB trains all of it

TEST_CASE("plans of Qwen2.5 7B") { plans::print(); }
