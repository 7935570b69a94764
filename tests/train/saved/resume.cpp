#include "../../op/tensor_group.hpp"
#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"

#include <constrain/io/directory_reader.hpp>
#include <constrain/train/saved/resume.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
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

/// What another process does to the series of a rank when the rank is about to load the run of a step.
using other_process = std::function<void(ct::saved_series const& series, std::size_t rank, std::int64_t step)>;

/// Saves the run of a step and removes all older ones.
void rotate(ct::saved_series const& series, std::int64_t saved) {
  for (auto const step : series.steps()) fs::remove_all(series.path(step));
  fs::create_directories(series.path(saved));
}

/// Takes the newest saved run on ranks that have these steps. Saved runs of the steps `damaged` cannot be loaded.
std::vector<outcome> load_newest(
    temporary_directory const& scratch, std::vector<steps> const& of_ranks, steps const& damaged,
    other_process const& meanwhile = [](ct::saved_series const&, std::size_t, std::int64_t) {}) {
  std::vector<outcome> all(of_ranks.size());
  tensor_group::run(static_cast<int>(of_ranks.size()), [&](ct::step_parameters const& parameters) {
    auto const rank = static_cast<std::size_t>(parameters.tensor->rank());
    auto const directory = scratch / std::to_string(rank);
    ct::saved_series const series(directory);
    for (auto const step : of_ranks[rank]) fs::create_directories(series.path(step));
    auto const load = [&](std::string const& path) {
      auto const name = fs::path(path).filename().string();
      all[rank].loaded.push_back(name);
      meanwhile(series, rank, *ct::saved_series::step_of(name));
      if (std::error_code ignored; !fs::exists(path, ignored)) throw ct::error({"'", name, "' is gone"});
      for (auto const step : damaged)
        if (path == series.path(step)) throw ct::error({"'step-", step, "' is damaged"});
    };
    std::FILE* const log = std::fopen((directory + ".log").c_str(), "w");
    auto const call = ct::joint_call::pretrained;
    all[rank].said = sentence([&] { all[rank].found = ct::load_newest(series, *parameters.tensor, call, load, log); });
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

TEST_CASE("resume: a series to which another process saves meanwhile is listed again") {
  using names = std::vector<std::string>;
  for (auto const& of_ranks : std::vector<std::vector<steps>>{{{9}}, {{9}, {9}}}) {
    temporary_directory const scratch;
    auto const twice = [](ct::saved_series const& series, std::size_t, std::int64_t step) {
      if (step < 12) rotate(series, step == 9 ? 10 : 12);
    };
    for (auto const& rank : load_newest(scratch, of_ranks, {}, twice)) {
      CHECK(rank.found);
      CHECK(rank.loaded == names{"step-9", "step-10", "step-12"});
      CHECK(rank.said == "");
      CHECK(rank.log ==
            "'step-9' is gone; a newer saved run is tried\n'step-10' is gone; a newer saved run is tried\n");
    }
  }
  // The older runs of the list are tried before it is listed again.
  temporary_directory const scratch;
  auto const at_last = [](ct::saved_series const& series, std::size_t, std::int64_t step) {
    if (step == 7) rotate(series, 11);
  };
  for (auto const& rank : load_newest(scratch, {{9, 7}, {9, 7}}, {9}, at_last)) {
    CHECK(rank.found);
    CHECK(rank.loaded == names{"step-9", "step-7", "step-11"});
  }
}

TEST_CASE("resume: if no newer run has been saved on all ranks, the last error is thrown") {
  auto const fails_once = [](other_process const& meanwhile) {
    temporary_directory const scratch;
    for (auto const& rank : load_newest(scratch, {{9}, {9}}, {}, meanwhile)) {
      CHECK_FALSE(rank.found);
      CHECK(rank.loaded == std::vector<std::string>{"step-9"});
      CHECK(rank.said == "'step-9' is gone");
      CHECK(rank.log == "");
    }
  };
  fails_once([](ct::saved_series const& series, std::size_t, std::int64_t) { fs::remove_all(series.path(9)); });
  fails_once([](ct::saved_series const& series, std::size_t, std::int64_t) { rotate(series, 8); });
  fails_once(
      [](ct::saved_series const& series, std::size_t rank, std::int64_t) { rotate(series, rank == 0 ? 12 : 8); });
  // One rank cannot list its series again.
  fails_once([](ct::saved_series const& series, std::size_t rank, std::int64_t) {
    rotate(series, 12);
    auto const directory = fs::path(series.path(12)).parent_path();
    if (rank == 1) fs::remove_all(directory), fs::create_symlink(std::string(300, 'a'), directory);
  });
}

TEST_CASE("resume: if no saved run is on all ranks, the error names one that one rank has and another lacks") {
  temporary_directory const scratch;
  auto const ranks = load_newest(scratch, {{10, 3}, {9}, {10, 4}}, {});
  // Each rank has a directory of its own here; on a real machine, the directory has one name.
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    CHECK(ranks[r].loaded.empty());
    CHECK(ranks[r].said == "load_pretrained: rank 0 finds a saved run in '" + scratch / std::to_string(r) +
                               "/step-3', but rank 1 does not; give all ranks a directory that they share");
  }
}

TEST_CASE("a saved run that only some ranks find: the error names the call") {
  temporary_directory const scratch;
  std::vector<std::string> said(2);
  for (auto const call : {ct::joint_call::resume, ct::joint_call::fit}) {
    tensor_group::run(2, [&](ct::step_parameters const& parameters) {
      auto const rank = static_cast<std::size_t>(parameters.tensor->rank());
      auto const directory = scratch / std::to_string(rank);
      if (rank == 1) fs::create_directories(directory), ct::test::write_file(directory + "/model.safetensors", "some");
      said[rank] = sentence([&] { ct::detail::found_by_all(*parameters.tensor, call, directory); });
    });
    for (std::size_t rank = 0; rank < 2; ++rank)
      CHECK(said[rank] == std::string(ct::name_of(call)) + ": rank 1 finds a saved run in '" +
                              scratch / std::to_string(rank) +
                              "', but rank 0 does not; give all ranks a directory that they share");
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
