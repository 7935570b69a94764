#include "../temporary_directory.hpp"

#include <constrain/io/real_path.hpp>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::temporary_directory;

TEST_CASE("real path: names on the way down") {
  temporary_directory const scratch;
  fs::create_directories(scratch / "a/b/c");
  fs::create_directory_symlink("a/b", scratch / "link");
  auto const below = [&](std::string const& path, std::string const& directory) {
    return ct::io::name_below(scratch / path, scratch / directory).value_or("outside");
  };
  CHECK(below("a/b/c", "a") == "b");
  CHECK(below("a/b/c", "a/b/c") == "");
  CHECK(below("a/b/c/", "a/b/../b/c//") == "");
  CHECK(below("link/c/d/e", "a") == "b");
  CHECK(below("link/d", "a/b") == "d");
  CHECK(below("link/new/../other", "a/b") == "other");
  CHECK(below("link/new/../../../x", "a/b") == "outside");
  CHECK(below("a", "link") == "outside");
  CHECK(below("ab", "a") == "outside");
  CHECK(below("new/deep", "new") == "deep");
  CHECK(below("link/new", "a/b/new") == "");
  CHECK(below("link/new/x", "a/b/new") == "x");
  CHECK(ct::io::name_below("/usr/lib", "/") == "usr");
  CHECK(ct::io::name_below("/", "/") == "");
  auto const before = fs::current_path();
  fs::current_path(scratch.path);
  CHECK(ct::io::name_below("x/y", ".") == "x");
  CHECK(ct::io::name_below("./x/y", "x") == "y");
  CHECK(ct::io::name_below("", "a").value_or("outside") == "outside");
  fs::current_path(before);
}
