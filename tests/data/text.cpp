#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <sched.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "../sentence.hpp"
#include "../temporary_directory.hpp"
#include "../without_descriptors.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/data/text.hpp"

namespace data = constrain::data;
namespace io = constrain::io;
namespace fs = std::filesystem;
using namespace constrain::test;

namespace {

std::string string_of(data::corpus const& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  return {tokens.begin(), tokens.end()};
}

} // namespace

TEST_CASE("corpus: bytes are tokens") {
  auto const corpus = data::text_from(std::string_view("a\0\xff!", 4));
  CHECK(corpus.size() == 4);
  CHECK(corpus.vocabulary() == 256);
  CHECK(corpus.token(0) == 97);
  CHECK(corpus.token(1) == 0);
  CHECK(corpus.token(2) == 255);
  std::vector<std::int32_t> tokens(2, -7);
  corpus.copy(2, tokens);
  CHECK(tokens == std::vector<std::int32_t>{255, 33});
  corpus.copy(4, {});
}

TEST_CASE("corpus: nothing outside is read") {
  auto const corpus = data::text_from("abc");
  std::vector<std::int32_t> tokens(2, -7);
  CHECK(sentence([&] { corpus.copy(2, tokens); }) ==
        "a corpus of 3 tokens was read out of bounds: 2 tokens starting at token 2; read only tokens that it has");
  using limits = std::numeric_limits<std::int64_t>;
  for (std::int64_t const first : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{4}, limits::max(), limits::min()}) {
    CHECK_FALSE(sentence([&] { corpus.copy(first, tokens); }).empty());
    CHECK_FALSE(sentence([&] { corpus.token(first); }).empty());
  }
  CHECK(tokens == std::vector<std::int32_t>{-7, -7});
  CHECK(sentence([] { data::text_from(""); }) == "the corpus has no tokens; give it at least one byte");
}

TEST_CASE("corpus: the tail is for validation") {
  auto const corpus = data::text_from("0123456789");
  auto const [train, validation] = corpus.split(0.25);
  CHECK(string_of(train) == "01234567");
  CHECK(string_of(validation) == "89");
  CHECK(validation.token(0) == '8');
  CHECK(corpus.split(0).validation.size() == 0);
  CHECK(corpus.split(1).train.size() == 0);
  CHECK(corpus.split(0.05).validation.size() == 0);
  for (double const fraction : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    CHECK_FALSE(sentence([&] { corpus.split(fraction); }).empty());
  CHECK(sentence([&] { corpus.split(2); }) ==
        "split: a validation fraction of 2 is out of range; give one from 0 to 1");
  auto const survivor = [] { return data::text_from("0123456789").split(0.5).validation; }();
  CHECK(string_of(survivor) == "56789");
}

TEST_CASE("corpus: blocks drawn by a seed are for validation") {
  std::string content;
  for (int i = 0; i < 1005; ++i) content += static_cast<char>(i * 7 >> 2);
  auto const corpus = data::corpus::from_bytes(content);
  auto const [train, validation] = corpus.split(0.25, 5, 10); // 101 blocks, the last one of 5
  auto const kept = string_of(train), cut = string_of(validation);
  CHECK(kept.size() + cut.size() == content.size());
  CHECK((cut.size() == 250 || cut.size() == 245));
  // Block by block, each is the next one of either part.
  std::size_t from_train = 0, from_validation = 0;
  for (std::size_t at = 0; at < content.size(); at += 10) {
    auto const block = content.substr(at, 10);
    auto& from = cut.compare(from_validation, block.size(), block) == 0 ? from_validation : from_train;
    if (&from == &from_train) CHECK(kept.compare(from_train, block.size(), block) == 0);
    from += block.size();
  }
  CHECK(from_train == kept.size());
  CHECK(from_validation == cut.size());
  // Reads that cross blocks, and blocks of blocks.
  for (std::int64_t first = 0; first + 33 < validation.size(); first += 13) {
    std::vector<std::int32_t> some(33);
    validation.copy(first, some);
    CHECK(std::string(some.begin(), some.end()) == cut.substr(static_cast<std::size_t>(first), 33));
  }
  auto const [twice, rest] = train.split(0.5);
  CHECK(string_of(twice) + string_of(rest) == kept);
  CHECK(string_of(corpus.split(0.25, 5, 10).validation) == cut);
  CHECK(string_of(corpus.split(0.25, 6, 10).validation) != cut);
  CHECK(corpus.split(0.01, 0).validation.size() == 0); // not one block of 1024
  CHECK(corpus.split(1, 0).train.size() == 0);
  CHECK(string_of(corpus.split(0, 9, 1).train) == content);
  CHECK(corpus.split(0, 9).validation.split(0.5, 1).train.size() == 0);
  CHECK(train.fingerprint() == data::corpus::from_bytes(kept).fingerprint());
  CHECK(sentence([&] { corpus.split(0.5, 1, 0); }) == "split: a block of 0 tokens is too short; give at least 1");
  CHECK(sentence([&] { corpus.split(1.5, 1); }) ==
        "split: a validation fraction of 1.5 is out of range; give one from 0 to 1");
}

TEST_CASE("corpus: the fingerprint follows the content") {
  auto const print = data::text_from("abcdefgh").fingerprint();
  CHECK(print == data::text_from("abcdefgh").fingerprint());
  CHECK(print == data::text_from("abcdefghabcdefgh").split(0.5).validation.fingerprint());
  for (std::string const other : {"abcdefg", "abcdefgi", "bacdefgh", "abcdefgh\n"})
    CHECK(print != data::text_from(other).fingerprint());
}

TEST_CASE("text: a file, and no more of it than asked") {
  temporary_directory const scratch;
  std::string content;
  for (int i = 0; i < 300'000; ++i) content += static_cast<char>(i * 31 >> 3);
  write_file(scratch / "a", content);
  CHECK(string_of(data::text(scratch / "a")) == content);
  CHECK(string_of(data::text(scratch / "a", {.maximum_bytes = 1000})) == content.substr(0, 1000));
  CHECK(string_of(data::text(scratch / "a", {.maximum_bytes = 300'001})) == content);
  CHECK(data::text("/proc/self/status").size() > 0); // says 0 bytes, has more
}

TEST_CASE("text: a directory tree, in the order of its paths") {
  temporary_directory const scratch;
  fs::create_directories(scratch / "b/c");
  fs::create_directories(scratch / ".git");
  write_file(scratch / "z.txt", "6");
  write_file(scratch / "a.txt", "1");
  write_file(scratch / "b/y.hpp", "5");
  write_file(scratch / "b/x", "4");
  write_file(scratch / "b/c/w.txt", "3");
  write_file(scratch / "b-.txt", "2"); // '-' sorts before '/'
  write_file(scratch / ".hidden", "no");
  write_file(scratch / ".git/object", "no");
  write_file(scratch / "empty", "");
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK(string_of(data::text(scratch.path)) == "123456");
  CHECK(string_of(data::text(scratch.path.string() + "/")) == "123456");
  CHECK(string_of(data::text(scratch.path, {.extensions = {".txt"}})) == "1236");
  CHECK(string_of(data::text(scratch.path, {.extensions = {".txt", ".hpp"}})) == "12356");
  CHECK(string_of(data::text(scratch.path, {.maximum_bytes = 4})) == "1234");
}

TEST_CASE("text: files after the last byte that is asked for are not read") {
  temporary_directory const scratch;
  write_file(scratch / "a", "123");
  fs::create_symlink("/proc/self/mem", scratch / "b"); // cannot be read
  CHECK(string_of(data::text(scratch.path, {.maximum_bytes = 3})) == "123");
  CHECK_THROWS(data::text(scratch.path, {.maximum_bytes = 4}));
}

TEST_CASE("text: a path that is too long is an error, not a file left out") {
  temporary_directory const scratch;
  write_file(scratch / "a", "1");
  CHECK(sentence_without_descriptors([&] {
          data::text(scratch.path);
        }).ends_with("/' cannot be read (Too many open files); close other files"));
  std::string const name(250, 'd');
  int directory = ::open(scratch.path.c_str(), O_RDONLY);
  for (int depth = 0; depth < 17; ++depth) {
    REQUIRE(::mkdirat(directory, name.c_str(), 0700) == 0);
    int const inner = ::openat(directory, name.c_str(), O_RDONLY);
    ::close(directory);
    directory = inner;
  }
  ::close(directory);
  CHECK(sentence([&] {
          data::text(scratch.path);
        }).ends_with("d' cannot be read (File name too long); check the path and its permissions"));
}

TEST_CASE("text: a file is in memory once") {
  temporary_directory const scratch;
  std::string bytes = "before", content(300'000, 'x');
  write_file(scratch / "a", content);
  data::detail::append_file(scratch / "a", std::numeric_limits<std::size_t>::max(), bytes);
  CHECK(bytes == "before" + content);
  CHECK(bytes.capacity() < bytes.size() + 64);
}

TEST_CASE("text: links are followed, but never in a circle") {
  temporary_directory const scratch;
  fs::create_directories(scratch / "root/real");
  fs::create_directories(scratch / "outside");
  write_file(scratch / "root/real/a", "A");
  write_file(scratch / "outside/b", "B");
  write_file(scratch / "not read", "no");
  fs::create_directory_symlink(".", scratch / "root/self");
  fs::create_directory_symlink("..", scratch / "root/up");
  fs::create_directory_symlink("/", scratch / "root/top");
  fs::create_directory_symlink("real", scratch / "root/again");
  fs::create_directory_symlink("../outside", scratch / "root/elsewhere");
  fs::create_directory_symlink("../root", scratch / "outside/back");
  fs::create_symlink("loop", scratch / "root/loop");
  fs::create_symlink("nowhere", scratch / "root/dangling");
  fs::create_symlink("real/a", scratch / "root/x");
  CHECK(string_of(data::text(scratch / "root")) == "BAA"); // elsewhere/b, real/a, x
  fs::create_directory_symlink("root", scratch / "link");
  CHECK(string_of(data::text(scratch / "link")) == "BAA");
}

TEST_CASE("text: the root of a file system is read") {
  temporary_directory const scratch;
  fs::create_directory(scratch / "inner");
  write_file(scratch / "a", "A");
  write_file(scratch / "inner/b", "B");
  fs::create_directory_symlink("/", scratch / "inner/top"); // "/" again, which is read once
  auto const child = ::fork();
  if (child == 0) {
    bool const is_root = ::chroot(scratch.path.c_str()) == 0 || // else as the root of a user namespace
                         (::unshare(CLONE_NEWUSER) == 0 && ::chroot(scratch.path.c_str()) == 0);
    if (!is_root) ::_exit(2);
    bool reads = false;
    auto const refusal = sentence([&] { reads = string_of(data::text("/")) == "AB"; });
    ::_exit(reads && refusal.empty() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) MESSAGE("this process must not change its root");
  else CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("text: what cannot be read is a sentence") {
  temporary_directory const scratch;
  auto const path = scratch / "t";
  CHECK(sentence([&] { data::text(path); }) == "the text '" + path + "' does not exist; check the path");
  write_file(path, "");
  CHECK(sentence([&] { data::text(path); }) ==
        "the text '" + path + "' is empty; give a file or directory that contains text");
  CHECK(sentence([&] { data::text(path, {.maximum_bytes = 0}); }) ==
        "text_options: .maximum_bytes is 0; give at least 1");
  CHECK(sentence([&] { data::text(path + "/x"); }) ==
        "the text '" + path + "/x' cannot be opened (Not a directory); check the path and its permissions");
  fs::remove(path);
  fs::create_directory(path);
  CHECK(sentence([&] { data::text(path); }) ==
        "the directory '" + path + "' has no visible files; give one that has some");
  write_file(path + "/a.txt", "");
  CHECK(sentence([&] { data::text(path, {.extensions = {".md"}}); }) ==
        "the directory '" + path +
            "' has no visible files with the given extensions; give one that has some, or other extensions");
  CHECK(sentence([&] { data::text(path); }) ==
        "the text '" + path + "' is empty; give a file or directory that contains text");
  CHECK(sentence([&] { data::text("/proc/self/mem"); }) ==
        "the text '/proc/self/mem' cannot be read (Input/output error); check the file and its disk");
  CHECK(sentence([&] { data::text("/dev/null"); }) == "the text '/dev/null' is not a regular file; give the path of "
                                                      "one");
  // In a tree, the file itself is named.
  fs::create_symlink("/proc/self/mem", path + "/b");
  CHECK(sentence([&] { data::text(path); }) ==
        "the text '" + path + "/b' cannot be read (Input/output error); check the file and its disk");
}

TEST_CASE("text: more than memory is refused before it is read") {
  temporary_directory const directory;
  write_file(directory / "x", "abc");
  CHECK(data::text(directory / "x", {.maximum_bytes = std::numeric_limits<std::int64_t>::max()}).size() == 3);
  std::error_code refused; // by file systems without files that have holes
  fs::resize_file(directory / "x", std::uintmax_t{1} << 43, refused);
  if (refused) return;
  auto const said = sentence([&] { data::text(directory / "x"); });
  CHECK(said.find(", more than the ") != std::string::npos);
  CHECK(data::text(directory / "x", {.maximum_bytes = 5}).size() == 5);
}

TEST_CASE("text: what a path or a file of the system does is a true sentence") {
  temporary_directory const scratch;
  auto const path = scratch / std::string("a\0b", 3);
  CHECK(sentence([&] { data::text(path); }) ==
        "the path '" + scratch / "a?b" +
            "' has a NUL byte (shown as '?'), which no file's name can have; leave it out");
  write_file(scratch / "held", "text");
  auto const signalled = std::signal(SIGIO, SIG_IGN); // the holder of a lease is asked by it
  io::descriptor const holder(::open((scratch / "held").c_str(), O_WRONLY | O_CLOEXEC));
  if (::fcntl(holder.get(), F_SETLEASE, F_WRLCK) == 0)
    CHECK(sentence([&] { data::text(scratch / "held"); }) ==
          "the text '" + scratch / "held" + "' is under another process's lease; wait until the lease ends");
  else MESSAGE("this file system has no leases");
  std::signal(SIGIO, signalled);
  if (::access("/proc/kmsg", R_OK) == 0 && io::descriptor(::open("/proc/kmsg", O_RDONLY | O_NONBLOCK)))
    CHECK(sentence([&] { data::text("/proc/kmsg"); }) ==
          "the text '/proc/kmsg' is a system file that has no data to read now; copy its content into a regular file");
  else MESSAGE("only root reads the kernel's messages");
}
