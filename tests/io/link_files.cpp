#include "../sentence.hpp"
#include "link_scene.hpp"

#include <constrain/io/atomic_file.hpp>
#include <constrain/io/directory_reader.hpp>
#include <constrain/io/event_file.hpp>
#include <constrain/io/log_file.hpp>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

// Links, hard links and pipes at the names of logs, events and files that are written whole, and names that no file can
// have: nothing outside changes, and what is in the way is one sentence.

using namespace constrain::test;
namespace io = constrain::io;

TEST_CASE("links: at the names of logs, events and files that are written whole") {
  auto const refused = [](char const* what, char const* why, char const* where) {
    return [=](scene const& s) {
      return std::string(what) + "'" + s.at("name") + "' cannot be written (" + why +
             "); remove it or choose another " + where;
    };
  };
  for (auto const& t : both()) {
    std::string const name = t.name;
    bool const link = name.starts_with("a link") || name.starts_with("a relative link"), hard = name == "a hard link";
    char const* const why = link   ? "it is a symbolic link"
                            : hard ? "it has another hard link"
                                   : "it is not a regular file";
    auto const log = [](scene const& s) { return sentence([&] { io::log_file(s.at("name"), "", "", 0).write("1"); }); };
    auto const resumed = [](scene const& s) {
      return sentence([&] { io::log_file(s.at("name"), "", "", 9).write("1"); });
    };
    auto const whole = [](scene const& s) {
      return sentence([&] {
        io::atomic_file file(s.at("name"), io::atomic_file::links::refused);
        file.out().write("text");
        file.commit();
      });
    };
    if (name != "a file") {
      check(t, "name", nothing_before, log, refused("the log ", why, "directory"));
      check(t, "name", nothing_before, resumed, refused("the log ", why, "directory"));
      if (!hard) check(t, "name", nothing_before, whole, refused("", why, "path"));
    }
    check(
        t, "name", nothing_before, [](scene const& s) { return sentence([&] { io::event_file(s.at("name"), 0); }); },
        [](scene const& s) {
          return "the event file '" + s.at("name") +
                 "' cannot be written (File exists); remove it or choose another directory";
        });
  }
  // A file of two names that is written whole: the other name keeps what it had.
  scene const s;
  fs::create_hard_link(s.outside + "/file", s.at("name"));
  io::atomic_file file(s.at("name"));
  file.out().write("text");
  file.commit();
  CHECK(read_file(s.at("name")) == "text");
  CHECK(read_file(s.outside + "/file") == "years of work");
  CHECK(sentence([] { io::atomic_file("/dev/null"); }) ==
        "'/dev/null' cannot be written (it is not a regular file); remove it or choose another path");
}

TEST_CASE("links: a commit that refused its target cannot be repeated") {
  scene const s;
  io::atomic_file file(s.at("name"));
  fs::create_directory(s.at("name"));
  CHECK(sentence([&] { file.commit(); }) ==
        "'" + s.at("name") + "' cannot be written (it is not a regular file); remove it or choose another path");
  CHECK(sentence([&] { file.commit(); }) == "'" + s.at("name") + "' has no write in progress; begin a new one");
}

TEST_CASE("links: a commit whose rename failed cannot be repeated") {
  scene const s;
  io::atomic_file file(s.at("name"));
  for (auto const& entry : fs::directory_iterator(s.shared)) fs::remove(entry); // its temporary file
  CHECK(sentence([&] { file.commit(); }) ==
        "'" + s.at("name") +
            "' cannot be put in place (No such file or directory); choose another path and save again");
  CHECK(sentence([&] { file.commit(); }) == "'" + s.at("name") + "' has no write in progress; begin a new one");
}

TEST_CASE("links: a '/' after a link does not hide it, and a loop in a parent is not called a link") {
  scene const s;
  fs::create_symlink(s.outside + "/file", s.at("name"));
  CHECK(sentence([&] { io::atomic_file(s.at("name") + "//", io::atomic_file::links::refused); }) ==
        "'" + s.at("name") + "//' cannot be written (it is a symbolic link); remove it or choose another path");
  fs::create_symlink("loop", s.at("loop"));
  CHECK(sentence([&] { io::event_file(s.at("loop/name"), 0); }) ==
        "the event file '" + s.at("loop/name") +
            "' cannot be written (Too many levels of symbolic links); check the links in its path or choose another "
            "directory");
}

TEST_CASE("links: a path that ends with '/' does not replace the file without it") {
  scene const s;
  write_file(s.at("name"), "kept");
  auto const said = [&](std::string const& path) { return sentence([&] { io::atomic_file{path}; }); };
  CHECK(said(s.at("name/")) == "'" + s.at("name/") +
                                   "' cannot be written (it ends with '/', like a directory's path); end it with a "
                                   "file's name");
  fs::create_symlink(s.at("name"), s.at("link"));
  for (auto const* const path : {"name//", "link/", "missing/"})
    CHECK(said(s.at(path)).find("it ends with '/'") != std::string::npos);
  CHECK(said("/").find("it ends with '/'") != std::string::npos);
  CHECK(read_file(s.at("name")) == "kept");
}

TEST_CASE("links: a path with a NUL byte") {
  scene const s;
  std::string const path = s.at(std::string("c\0d", 3));
  auto const said =
      "the path '" + s.at("c?d") + "' has a NUL byte (shown as '?'), which no file's name can have; leave it out";
  CHECK(sentence([&] { save(path, "x"); }) == said);
  CHECK(sentence([&] { load(path); }) == said);
  CHECK(sentence([&] { io::directory_reader::finds(path); }) == said);
  CHECK(sentence([&] { io::log_file(path, "", "", 0); }) == said);
  CHECK(sentence([&] { io::event_file(path, 0); }) == said);
  CHECK(sentence([&] { io::atomic_file{path}; }) == said);
  CHECK(sentence([&] { io::mapped_file{path}; }) == said);
  CHECK(sentence([&] { io::make_directories(path); }) == said);
  CHECK(fs::is_empty(s.shared));
}

TEST_CASE("links: there were enough of them") {
  MESSAGE(cases << " cases");
  CHECK(cases >= 40);
}
