#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../../without_descriptors.hpp"

#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <constrain/train/saved/saved_series.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// Which checkpoints of a series are removed: the older ones that runs saved there, and nothing else whatever its name
// is.

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::read_file, ct::test::sentence, ct::test::temporary_directory, ct::test::write_file;
using steps = std::vector<std::int64_t>;

namespace {

void save(std::string const& path) {
  ct::io::directory_writer w(path);
  w.write("state.json", path);
  w.commit();
}

/// A series in `run` of these steps.
void save_steps(temporary_directory const& scratch, steps const& all) {
  for (auto const step : all) save(scratch / "run/step-" + std::to_string(step));
}

steps kept(temporary_directory const& scratch, std::int64_t count, std::int64_t last) {
  ct::saved_series const series(scratch / "run");
  series.remove_old(count, last);
  return series.steps();
}

} // namespace

TEST_CASE("series: a name without a step from 0 on is not a saved run of the series") {
  temporary_directory const scratch;
  save_steps(scratch, {0, -5});
  CHECK(ct::saved_series(scratch / "run").steps() == steps{0});
}

TEST_CASE("series: a saved run that an interrupted save left under its hidden name belongs to the series") {
  temporary_directory const scratch;
  save_steps(scratch, {2, 4, 6});
  ct::saved_series const series(scratch / "run");
  fs::rename(scratch / "run/step-4", scratch / "run/.step-4.previous"); // between the two renames
  fs::copy(scratch / "run/step-6", scratch / "run/.step-6.previous");   // after both
  for (auto const* other : {".step-.previous", ".step-x.previous", ".previous", ".step-8.partial-1", "step-9.previous"})
    fs::create_directory(scratch / "run/" + other);
  CHECK(series.steps() == steps{6, 4, 2});
  CHECK(ct::io::directory_reader(series.path(4)).contains("state.json"));
}

TEST_CASE("series: a directory that cannot be listed is an error, but nothing or a file at its path is not") {
  temporary_directory const scratch;
  write_file(scratch / "file", "mine");
  for (auto const* path : {"missing", "file", "file/run"}) CHECK(ct::saved_series(scratch / path).steps().empty());
  auto path = scratch / "run";
  save_steps(scratch, {2});
  CHECK(ct::test::sentence_without_descriptors([&] { ct::saved_series(path).steps(); }) ==
        "the directory '" + path + "' cannot be listed (Too many open files); close other files");
  while (path.size() < PATH_MAX) path += "/."; // the same directory, but its path is too long
  CHECK(sentence([&] { ct::saved_series(path).steps(); }) ==
        "the directory '" + path + "' cannot be listed (File name too long); check the path and its permissions");
  ct::saved_series(path).remove_old(1, 2); // does not throw
}

TEST_CASE("series: the last ones are kept") {
  temporary_directory const scratch;
  save_steps(scratch, {2, 4, 6, 8, 10});
  CHECK(kept(scratch, 2, 8) == steps{10, 8, 6}); // one after the step is another run's
  CHECK(kept(scratch, 1, 10) == steps{10});
  CHECK(std::distance(fs::directory_iterator(scratch / "run"), fs::directory_iterator()) == 1);
}

TEST_CASE("series: what a killed save left is removed, unless another run saves there or its step is later") {
  temporary_directory const scratch;
  save_steps(scratch, {2, 4, 6});
  for (auto const* step : {"3", "5", "9"})
    if (auto const child = ::fork(); child == 0) {
      ct::io::directory_writer w(scratch / "run/step-" + step);
      w.write("state.json", "unfinished");
      ::_exit(0); // without destructors, as a kill would
    } else ::waitpid(child, nullptr, 0);
  ct::io::directory_writer living(scratch / "run/step-4");
  living.write("state.json", "unfinished");
  CHECK(kept(scratch, 2, 6) == steps{6, 4});
  std::vector<std::string> left;
  for (auto const& entry : fs::directory_iterator(scratch / "run")) left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  REQUIRE(left.size() == 4);
  CHECK(left[0].starts_with(".step-4.partial-"));
  CHECK(left[1].starts_with(".step-9.partial-"));
  CHECK(left[2] == "step-4");
  CHECK(left[3] == "step-6");
}

TEST_CASE("series: what an interrupted save left of a replaced run is removed if the new run is complete") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2, 3, 4, 5, 6, 8});
  auto const run = scratch / "run/";
  auto const interrupt = [&](std::string const& step) { // after the save's first rename
    fs::rename(run + "step-" + step, run + ".step-" + step + ".previous");
  };
  auto const interrupt_later = [&](std::string const& step) { // after both
    fs::rename(run + "step-" + step, scratch / "aside");
    save(run + "step-" + step);
    fs::rename(scratch / "aside", run + ".step-" + step + ".previous");
  };
  interrupt("1"), interrupt("2");
  for (auto const* step : {"3", "4", "5", "8"}) interrupt_later(step);
  fs::copy(run + "step-3", run + "step-2");            // nothing that a save made
  write_file(run + "step-3/state.json", "damaged");    // a save made it, but it is damaged
  write_file(run + "step-5/manifest.json", "damaged"); // likewise
  fs::create_directory(run + ".step-6.previous");      // nothing that a save replaced
  write_file(run + ".step-6.previous/thesis.txt", "years of work");
  CHECK(kept(scratch, 9, 6) == steps{8, 6, 5, 4, 3, 2, 1});
  CHECK_FALSE(fs::exists(run + ".step-4.previous"));
  CHECK(ct::io::directory_reader(run + "step-4").contains("state.json"));
  for (auto const* step : {"1", "2", "3", "5", "8"})
    CHECK_MESSAGE(fs::exists(run + ".step-" + step + ".previous/state.json"), step);
  CHECK(fs::exists(run + ".step-6.previous/thesis.txt"));
}

TEST_CASE("series: a link is left alone, with what it leads to, and does not count") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2, 3, 4});
  fs::create_directory(scratch / "arch");
  fs::rename(scratch / "run/step-1", scratch / "arch/step-1");
  fs::create_directory_symlink("../arch/step-1", scratch / "run/step-1");
  fs::rename(scratch / "run/step-3", scratch / "arch/step-3");
  fs::create_directory_symlink(scratch / "arch/step-3", scratch / "run/step-3");
  CHECK(kept(scratch, 2, 4) == steps{4, 3, 2, 1});
  CHECK(kept(scratch, 1, 4) == steps{4, 3, 1});
  for (auto const* path : {"arch/step-1", "arch/step-3", "run/step-1", "run/step-3"})
    CHECK(ct::io::directory_reader(scratch / path).contains("state.json"));
  CHECK(fs::is_symlink(scratch / "run/step-1"));
}

TEST_CASE("series: no save goes through a link in it") {
  temporary_directory const scratch;
  save(scratch / "arch");
  fs::create_directory(scratch / "run");
  fs::create_directory_symlink("../arch", scratch / "run/step-5");
  ct::saved_series const series(scratch / "run");
  CHECK(series.path_to_save(4) == scratch / "run/step-4");
  CHECK(sentence([&] { series.path_to_save(5); }) ==
        "'" + scratch / "run/step-5" +
            "' is a symbolic link, and a save there would replace the target of the link; remove the link or choose "
            "another directory");
  // A save outside of a series follows the link, as the sentence says.
  save(scratch / "run/step-5");
  CHECK(fs::is_symlink(scratch / "run/step-5"));
  CHECK(read_file(scratch / "arch/state.json") == scratch / "run/step-5");
}

TEST_CASE("series: what was copied, moved, renamed or linked into it is left alone") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2, 3, 4, 5, 6, 20});
  auto const run = [&](char const* name) { return scratch / "run/" + name; };
  fs::copy(run("step-1"), run("step-7"), fs::copy_options::recursive); // cp -a
  fs::rename(run("step-2"), run("step-8"));                            // its mark says another name
  save(scratch / "elsewhere/step-9");
  fs::rename(scratch / "elsewhere/step-9", run("step-9"));          // ... and another folder
  fs::create_hard_link(run("step-3/.constrain"), scratch / "mark"); // a mark with two names is nobody's
  fs::remove(run("step-4/.constrain"));                             // saved by an older version, or unpacked
  write_file(run("step-5/manifest.json"), "{}");                    // damaged
  fs::create_directory(run("step-10"));
  write_file(run("step-10/thesis.txt"), "years of work");
  write_file(run("step-11"), "a file");
  fs::create_symlink("nowhere", run("step-12"));
  REQUIRE(::mkfifo(run("step-13").c_str(), 0600) == 0);
  CHECK(kept(scratch, 1, 20) == steps{20, 13, 12, 11, 10, 9, 8, 7, 5, 4, 3}); // of ours, 1 and 6 go
  for (auto const* step : {"3", "4", "7", "8", "9"})
    CHECK(ct::io::directory_reader(run("step-") + step).contains("state.json"));
  CHECK(read_file(run("step-10/thesis.txt")) == "years of work");
  // With the other name gone, it is ours again.
  fs::remove(scratch / "mark");
  CHECK(kept(scratch, 1, 20) == steps{20, 13, 12, 11, 10, 9, 8, 7, 5, 4});
}

TEST_CASE("series: another user's checkpoint is left alone") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2, 3});
  for (auto const* file : {"", "/.constrain", "/manifest.json", "/state.json"})
    if (::chown((scratch / "run/step-1" + file).c_str(), 65534, 65534) != 0) {
      MESSAGE("only root can give files away");
      return;
    }
  CHECK(kept(scratch, 1, 3) == steps{3, 1});
  CHECK(ct::io::directory_reader(scratch / "run/step-1").contains("state.json"));
}

TEST_CASE("series: what somebody put into a checkpoint is kept beside it") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2});
  fs::create_directory(scratch / "run/step-1/plots");
  write_file(scratch / "run/step-1/plots/loss.svg", "<svg/>");
  fs::create_symlink(scratch / "run/step-2", scratch / "run/step-1/newest");
  CHECK(kept(scratch, 1, 2) == steps{2});
  int found = 0;
  for (auto const& entry : fs::directory_iterator(scratch / "run"))
    if (entry.path().filename().string().starts_with("step-1.kept-")) {
      ++found;
      CHECK(read_file(entry.path() / "plots/loss.svg") == "<svg/>");
      CHECK(fs::is_symlink(entry.path() / "newest"));
      CHECK(std::distance(fs::directory_iterator(entry.path()), fs::directory_iterator()) == 2);
    }
  CHECK(found == 1);
}

TEST_CASE("series: a removal that was cut short is finished") {
  temporary_directory const scratch;
  save_steps(scratch, {1, 2, 3, 4});
  fs::remove(scratch / "run/step-1/state.json");
  for (auto const* file : {"state.json", "manifest.json"}) fs::remove(scratch / "run/step-2/" + file);
  for (auto const* file : {"state.json", "manifest.json", ".constrain"}) fs::remove(scratch / "run/step-3/" + file);
  CHECK(kept(scratch, 1, 4) == steps{4});
}
