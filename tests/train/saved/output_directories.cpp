#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

// The places that fit writes to are apart, and none of its files is another's.

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::read_file, ct::test::sentence, ct::test::temporary_directory, ct::test::write_file;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

ct::data::corpus corpus() {
  std::string text;
  for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
  return ct::data::corpus::from_bytes(text);
}

} // namespace

TEST_CASE("best and records within what a checkpoint replaces or keep_last removes are refused") {
  temporary_directory const scratch;
  fs::create_directories(scratch / "run/step-4");
  fs::create_directory_symlink("run", scratch / "latest");
  fs::create_directory_symlink("../run/step-4", scratch / "run/four");
  auto const said = [&](std::int64_t keep_last, std::string const& best, std::string const& records = "") {
    auto const at = [&](std::string const& name) { return name.empty() ? name : scratch / name; };
    return sentence([&] { ct::detail::check_output_directories(scratch / "run", keep_last, at(best), at(records)); });
  };
  auto const in_series = [&](std::string const& option, std::string const& path) {
    return "fit: ." + option + " '" + scratch / path +
           "' is, or is in, a saved run in .directory, and .keep_last removes old saved runs; choose a directory "
           "outside of .directory";
  };
  for (auto const* path : {"run/step-1", "run/step-4", "run/step-4/", "run/./step-10", "latest/step-1",
                           "latest/../run//step-1", "run/step-4/deep/er", "run/four", "run/four/best"}) {
    CAPTURE(path);
    CHECK(said(2, path) == in_series("best", path));
    CHECK(said(2, "", path) == in_series("records", path));
  }
  for (auto const* path :
       {"best", "run/best", "run/step-", "run/step-04", "run/step-x", "run/mystep-1", "other/step-1"}) {
    CAPTURE(path);
    CHECK(said(2, path).empty());
    CHECK(said(2, "", path).empty());
  }
  CHECK(said(2, "", "run").empty()); // steps.jsonl beside step-4
  for (auto const* path : {"run", "latest", "run/", "run/best", "latest/records", "run/four"}) {
    CAPTURE(path);
    auto const rest = std::string(" '") + scratch / path +
                      "' is, or is in, .directory, which every save replaces; choose a directory outside of .directory";
    CHECK(said(0, path) == "fit: .best" + rest);
    CHECK(said(0, "", path) == "fit: .records" + rest);
  }
  CHECK(said(0, "best", "records").empty());
  auto const holds = [&](std::string const& best, std::string const& option, std::string const& other) {
    return "fit: .best '" + scratch / best + "' is, or contains, " + option + " '" + scratch / other +
           "', which a save to .best would delete; choose a directory outside of .best";
  };
  CHECK(said(2, "run") == holds("run", ".directory", "run"));
  CHECK(said(2, "latest") == holds("latest", ".directory", "run"));
  CHECK(said(0, "best", "best/records") == holds("best", ".records", "best/records"));
  CHECK(said(2, "best", "best") == holds("best", ".records", "best"));
}

TEST_CASE("fit: best in its own series is refused at the start; beside it, it is kept and comes back") {
  temporary_directory const scratch;
  auto const text = corpus();
  auto const refused = [&](char const* best) {
    ct::trainer<task> t;
    CHECK(sentence([&] {
            ct::fit(t, text,
                    {.steps = 4,
                     .validation = &text,
                     .directory = scratch / "run",
                     .save_every = 1,
                     .log = nullptr,
                     .keep_last = 1,
                     .best = scratch / best,
                     .load_best = true});
          }).starts_with("fit: .best '" + scratch / best));
    CHECK(t.steps() == 0);
  };
  refused("run/step-1"), refused("run/../run/step-1");
  auto const validation = ct::data::corpus::from_bytes(std::string(200, 'x')); // gets worse
  ct::trainer<task> t({.learning_rate = 3e-2f});
  auto const result = ct::fit(t, text,
                              {.steps = 6,
                               .validation = &validation,
                               .evaluate_every = 1,
                               .directory = scratch / "run",
                               .save_every = 1,
                               .log = nullptr,
                               .keep_last = 1,
                               .best = scratch / "run/best",
                               .load_best = true});
  CHECK(result.validation->loss > 1.001 * t.state().best_validation_loss);
  CHECK(ct::saved_series(scratch / "run").steps() == std::vector<std::int64_t>{6});
  CHECK(t.evaluate(validation).loss == doctest::Approx(t.state().best_validation_loss));
}

TEST_CASE("fit: records that are links, hard links or pipes are refused, and what they lead to stays") {
  temporary_directory const scratch;
  auto const text = corpus();
  write_file(scratch / "thesis", "years of work");
  for (auto const* name : {"steps.jsonl", "steps.csv", "summary.json", "report.html"}) {
    CAPTURE(name);
    for (bool const hard : {false, true}) {
      auto const records = scratch / "deep/er/records", file = records + "/" + name;
      fs::create_directories(records);
      if (hard) fs::create_hard_link(scratch / "thesis", file);
      else fs::create_symlink(scratch / "thesis", file);
      ct::trainer<task> t;
      auto const said = sentence([&] { ct::fit(t, text, {.steps = 1, .log = nullptr, .records = records}); });
      // A file that is replaced whole takes nothing from the other name.
      bool const log = std::string(name).starts_with("steps");
      CHECK(said.find(!hard ? "(it is a symbolic link)" : log ? "(it has another hard link)" : "") != said.npos);
      CHECK(said.empty() == (hard && !log));
      CHECK(read_file(scratch / "thesis") == "years of work");
      fs::remove_all(scratch / "deep");
    }
  }
}

TEST_CASE("fit: what lies at the name of a later checkpoint and is none is found at the start") {
  temporary_directory const scratch;
  ct::trainer<task> t;
  fs::create_directories(scratch / "run/step-3");
  write_file(scratch / "run/step-3/thesis.txt", "precious");
  auto const said = sentence([&] {
    ct::fit(t, corpus(), {.steps = 6, .directory = scratch / "run", .save_every = 1, .log = nullptr, .keep_last = 2});
  });
  CHECK(said.find("step-3' holds files that this library did not save") != std::string::npos);
  CHECK(t.steps() == 0);
  CHECK(read_file(scratch / "run/step-3/thesis.txt") == "precious");
}
