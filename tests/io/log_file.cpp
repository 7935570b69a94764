#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/io/log_file.hpp>
#include <doctest/doctest.h>

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace ct = constrain;
using ct::test::read_file, ct::test::write_file;
using namespace std::string_view_literals;

namespace {

/// A log of these lines after a run has resumed after step `last_step` and written a line.
std::string gone_on(std::string const& before, std::int64_t last_step, std::string const& header = "step,loss") {
  ct::test::temporary_directory const directory;
  write_file(directory / "log", before);
  ct::io::log_file(directory / "log", "", header, last_step).write("new");
  return read_file(directory / "log");
}

} // namespace

TEST_CASE("a log begins with its header and grows by lines") {
  ct::test::temporary_directory const directory;
  ct::io::log_file log(directory / "log", "", "step,loss", 0);
  log.write("1,5");
  CHECK(read_file(directory / "log") == "step,loss\n1,5\n"); // a line is there once it is written
  log.write("2,4");
  CHECK(read_file(directory / "log") == "step,loss\n1,5\n2,4\n");
}

TEST_CASE("a log is cut back to the step after which a run goes on") {
  std::string const three = "step,loss\n1,5\n2,4\n3,3\n";
  CHECK(gone_on(three, 3) == three + "new\n");
  CHECK(gone_on(three, 9) == three + "new\n");
  CHECK(gone_on(three, 2) == "step,loss\n1,5\n2,4\nnew\n");
  CHECK(gone_on(three, 0) == "step,loss\nnew\n");
  CHECK(gone_on(three + "4,", 9) == three + "new\n"); // torn
  CHECK(gone_on(three + "what\n4,2\n", 9) ==
        three + "what\n4,2\nnew\n"); // no line of ours is no reason to lose those after it
  CHECK(gone_on(three + "what\n4,2\n", 3) == three + "what\nnew\n");
  CHECK(gone_on("another,header\n1,5\n", 9) == "step,loss\nnew\n");
  CHECK(gone_on("", 9) == "step,loss\nnew\n");
  CHECK(gone_on("1\n2\n3\n", 2, "") == "1\n2\nnew\n");
  CHECK(gone_on("99999999999999999999\n", 2, "") == "99999999999999999999\nnew\n"); // no step is that large
}

TEST_CASE("what can be done about an error depends on its number") {
  for (int const number : {ENOSPC, EDQUOT}) CHECK(ct::io::remedy(number) == "free disk space"sv);
  for (int const number : {EACCES, EPERM, EROFS}) CHECK(ct::io::remedy(number) == "check the permissions"sv);
  CHECK(ct::io::remedy(ENOENT) == "create its directory"sv);
  CHECK(ct::io::remedy(ENOTDIR) == "make its parent a directory"sv);
  CHECK(ct::io::remedy(EEXIST) == "remove it"sv);
  CHECK(ct::io::remedy(ELOOP) == "check the links in its path"sv);
  CHECK(ct::io::remedy(EFBIG) == "raise the limit on a file's size"sv);
  for (int const number : {EMFILE, ENFILE}) CHECK(ct::io::remedy(number) == "close other files"sv);
  CHECK(ct::io::remedy(ENOMEM) == "free memory or raise the limit on it (ulimit -v)"sv);
  CHECK(ct::io::remedy(ENAMETOOLONG) == "shorten the name"sv);
  CHECK(ct::io::remedy(EIO) == "check the disk"sv);
}

TEST_CASE("a log does not get the number of a closed standard stream, to which others may write") {
  ct::test::temporary_directory const directory;
  int const kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  ct::io::log_file log(directory / "log", "", "step,loss", 0);
  bool const is_open = ::fcntl(STDIN_FILENO, F_GETFD) >= 0;
  if (kept >= 0) ::dup2(kept, STDIN_FILENO), ::close(kept);
  CHECK(!is_open);
  log.write("1,5");
  CHECK(read_file(directory / "log") == "step,loss\n1,5\n");
}

TEST_CASE("a log that cannot be written") {
  ct::test::temporary_directory const directory;
  CHECK(ct::test::sentence([&] { ct::io::log_file(directory / "none/log", "", "", 0); }) ==
        "the log '" + directory / "none/log" +
            "' cannot be written (No such file or directory); create its directory or choose another directory");
  CHECK(ct::test::sentence([] {
          ct::io::log_file("/dev/full", "", "", 0).write("1");
        }).starts_with("the log '/dev/full' cannot be written"));
}
