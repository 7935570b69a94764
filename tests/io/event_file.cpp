#include "../temporary_directory.hpp"

#include <constrain/io/event_file.hpp>
#include <doctest/doctest.h>

#include "../sentence.hpp"

namespace ct = constrain;

TEST_CASE("events have the bytes that TensorBoard's own writer gives them") {
  ct::test::temporary_directory const directory;
  {
    ct::io::event_file events(directory / "events", 999.5);
    events.scalar("train/loss", 1, 5.5, 1000.25);
    events.scalar("train/loss", 300, -0.1, 1001);
    events.scalar("validation/accuracy", std::int64_t{1} << 40, 1, 2e9);
  }
  auto const expected = ct::test::read_file(std::string(CONSTRAIN_FIXTURES) + "/events.tfevents");
  REQUIRE_FALSE(expected.empty());
  CHECK((ct::test::read_file(directory / "events") == expected));
}

TEST_CASE("every event file of a directory has a name of its own, as TensorBoard looks for it") {
  ct::test::temporary_directory const directory;
  ct::io::event_file const first(directory / ""), second(directory / "");
  CHECK(directory.entries() == 2);
  for (auto const& entry : std::filesystem::directory_iterator(directory.path))
    CHECK(entry.path().filename().string().starts_with("events.out.tfevents."));
}

TEST_CASE("an event file that cannot be written") {
  ct::test::temporary_directory const directory;
  CHECK(ct::test::sentence([&] { ct::io::event_file(directory / "none/events", 0); }) ==
        "the event file '" + directory / "none/events" +
            "' cannot be written (No such file or directory); create its directory or choose another directory");
}
