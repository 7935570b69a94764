#include "plans.hpp"

namespace ct = constrain;
using plans = ct::test::plans<ct::qwen3_8b>;

static_assert(plans::n == 8'190'735'360);
static_assert(plans::smallest::memory.peak < ct::gibibytes(23));

TEST_CASE("plans of Qwen3 8B") { plans::print(); }
