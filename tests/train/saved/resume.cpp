#include "../../op/tensor_group.hpp"
#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"

#include <constrain/io/directory_reader.hpp>
#include <constrain/train/saved/resume.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

// Which saved run the ranks load if they have different ones. The ranks are threads.

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::sentence, ct::test::temporary_directory, ct::test::tensor_group;
using steps = std::vector<std::int64_t>;

namespace {

/// What one rank did.
struct outcome {
  bool found = false;
  std::string said, log;           // the error; what was printed
  std::vector<std::string> loaded; // the names of the saved runs, in the order of the attempts
};

/// Takes the newest saved run on ranks that have these steps. Saved runs of the steps `damaged` cannot be loaded.
std::vector<outcome> load_newest(temporary_directory const& scratch, std::vector<steps> const& of_ranks,
                                 steps const& damaged) {
  std::vector<outcome> all(of_ranks.size());
  tensor_group::run(static_cast<int>(of_ranks.size()), [&](ct::step_parameters const& parameters) {
    auto const rank = static_cast<std::size_t>(parameters.tensor->rank());
    auto const directory = scratch / std::to_string(rank);
    ct::saved_series const series(directory);
    for (auto const step : of_ranks[rank]) fs::create_directories(series.path(step));
    auto const load = [&](std::string const& path) {
      all[rank].loaded.push_back(fs::path(path).filename());
      for (auto const step : damaged)
        if (path == series.path(step)) throw ct::error({"'step-", step, "' is damaged"});
    };
    std::FILE* const log = std::fopen((directory + ".log").c_str(), "w");
    all[rank].said = sentence([&] { all[rank].found = ct::load_newest(series, *parameters.tensor, load, log); });
    std::fclose(log);
    all[rank].log = ct::test::read_file(directory + ".log");
  });
  return all;
}

} // namespace

TEST_CASE("resume: all ranks load the newest saved run that all have") {
  temporary_directory const scratch;
  for (auto const& rank : load_newest(scratch, {{9, 7, 4, 2}, {8, 4, 2}}, {})) {
    CHECK(rank.found);
    CHECK(rank.loaded == std::vector<std::string>{"step-4"});
    CHECK(rank.said == "");
    CHECK(rank.log.find("not every rank has '") == 0);
    CHECK(rank.log.find("an older saved run is tried\n") != std::string::npos);
  }
}

TEST_CASE("resume: an older saved run replaces one that cannot be loaded") {
  temporary_directory const scratch;
  auto const ranks = load_newest(scratch, {{9, 7, 4}, {9, 4}}, {9});
  for (auto const& rank : ranks) {
    CHECK(rank.found);
    CHECK(rank.loaded == std::vector<std::string>{"step-9", "step-4"});
  }
  CHECK(ranks[1].log == "'step-9' is damaged; the next older saved run is tried\n");
  CHECK(ranks[0].log ==
        ranks[1].log + "not every rank has '" + scratch / "0/step-7" + "'; an older saved run is tried\n");
}

TEST_CASE("resume: if no saved run of all ranks can be loaded, the last error is thrown") {
  for (auto const& of_ranks : std::vector<std::vector<steps>>{{{10}, {10}}, {{10, 5}, {10, 3}}, {{10, 5}, {10}}}) {
    temporary_directory const scratch;
    for (auto const& rank : load_newest(scratch, of_ranks, {10})) {
      CHECK(rank.loaded == std::vector<std::string>{"step-10"});
      CHECK(rank.said == "'step-10' is damaged");
      CHECK(rank.log == "");
    }
  }
}

TEST_CASE("resume: if no saved run is on all ranks, the error names one that one rank has and another lacks") {
  temporary_directory const scratch;
  auto const ranks = load_newest(scratch, {{10, 3}, {9}, {10, 4}}, {});
  // Each rank has a directory of its own here; on a real machine, the directory has one name.
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    CHECK(ranks[r].loaded.empty());
    CHECK(ranks[r].said == "resume: rank 0 finds a saved run in '" + scratch / std::to_string(r) +
                               "/step-3', but rank 1 does not; give all ranks a directory that they share");
  }
}

TEST_CASE("resume: if no rank has a saved run, there is nothing to load") {
  temporary_directory const scratch;
  for (auto const& rank : load_newest(scratch, {{}, {}}, {})) {
    CHECK_FALSE(rank.found);
    CHECK(rank.loaded.empty());
    CHECK(rank.said == "");
  }
}

TEST_CASE("resume: a path that cannot be listed, and a file, are errors and no empty series") {
  temporary_directory const scratch;
  auto const file = scratch / "file", long_path = scratch / std::string(300, 'a');
  ct::test::write_file(file, "mine");
  ct::self world;
  auto const resume = [&](std::string const& path) {
    return sentence([&] {
      ct::resume_from(
          path, world, [](std::string const& run) { ct::io::directory_reader{run}; }, nullptr);
    });
  };
  CHECK(resume(scratch / "missing") == "");
  CHECK(resume(file) == "'" + file + "' is not a directory; give the directory that was saved");
  CHECK(resume(long_path) ==
        "the directory '" + long_path + "' cannot be listed (File name too long); check the path and its permissions");
}
