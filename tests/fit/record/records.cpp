#include "../../temporary_directory.hpp"

#include <constrain/fit/record/records.hpp>
#include <doctest/doctest.h>

#include <fstream>

// What is read back from the records of steps.

namespace ct = constrain;

TEST_CASE("a step was saved or resumed if its record says true") {
  ct::test::temporary_directory const directory;
  ct::records records(directory.path.string(), 0);
  records.write({.step = 1, .saved = true});
  records.write({.step = 2, .resumed = true});
  // Another program may write what the library leaves out.
  std::ofstream(directory / "steps.jsonl", std::ios::app)
      << R"({"step": 3, "loss": 1, "gradient_norm": 1, "learning_rate": 1, "seconds": 1, "tokens": 1, )"
      << R"("tokens_per_second": 1, "skipped": false, "saved": false, "resumed": false})" << '\n';
  auto const steps = records.steps();
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].saved);
  CHECK(!steps[0].resumed);
  CHECK(!steps[1].saved);
  CHECK(steps[1].resumed);
  CHECK(!steps[2].saved);
  CHECK(!steps[2].resumed);
}
