#include "../sentence.hpp"
#include "link_scene.hpp"

#include <constrain/io/directory_reader.hpp>
#include <doctest/doctest.h>

#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>

// Links, hard links, pipes and other people's directories at every name that saving a checkpoint touches: nothing
// outside changes, and what is in the way is one sentence.

using namespace constrain::test;
namespace io = constrain::io;

namespace {

bool knows_handles = true; // the file system

} // namespace

extern "C" int name_to_handle_at(int directory, char const* path, file_handle* handle, int* mount, int flags) noexcept {
  if (!knows_handles) return errno = EOPNOTSUPP, -1;
  using function = int (*)(int, char const*, file_handle*, int*, int);
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, "name_to_handle_at"))(directory, path, handle, mount, flags);
}

TEST_CASE("links: at the name of an abandoned save") {
  for (auto const& t : both())
    check(
        t, ".c.partial-evil", [](scene const& s) { save(s.target, "old"); },
        [](scene const& s) {
          return sentence([&] {
            save(s.target, "new");
            CHECK(load(s.target) == "new");
          });
        },
        nothing_said);
}

TEST_CASE("links: at the name where a save without an exchange puts the old checkpoint") {
  for (auto const& t : both()) {
    auto const old = [](scene const& s) { save(s.target, "old"); };
    // In nobody's way.
    check(
        t, ".c.previous", old, [](scene const& s) { return sentence([&] { save(s.target, "new"); }); }, nothing_said);
    check(
        t, ".c.previous", nothing_before,
        [](scene const& s) { return sentence([&] { save(s.target, "new", way::no); }); }, nothing_said);
    // In the way.
    check(
        t, ".c.previous", old,
        [](scene const& s) {
          auto const said = sentence([&] { save(s.target, "new", way::no); });
          CHECK(load(s.target) == "old");
          return said;
        },
        [](scene const& s) {
          std::string said = "'"; // g++ 12 warns of a sum of temporaries
          said += s.target + "' cannot be replaced, because '" + s.at(".c.previous");
          return said += "' exists; move the latter away";
        });
  }
}

TEST_CASE("links: at the name of the checkpoint itself") {
  auto const saved = [](scene const& s) { return sentence([&] { save(s.target, "new"); }); };
  std::map<std::string, std::string> const reasons = {
      {"a file", "is a file"},
      {"a hard link", "is a file"},
      {"a pipe", "is not a directory"},
      {"a socket", "is not a directory"},
      {"a folder", "holds files that this library did not save"},
      {"a folder with a second name of a mark", "holds files that this library did not save"},
      {"a folder with an empty mark", "holds files that this library did not save"},
      {"a folder with the begin of a mark", "holds files that this library did not save"},
      {"a copy of what a killed save left", "holds files that this library did not save"},
      {"what a killed save left elsewhere, moved", "holds files that this library did not save"},
      {"what a killed save of another name left", "holds files that this library did not save"},
      {"what a killed save left, its mark with a second name", "holds files that this library did not save"},
      {"what a killed save left, its mark a link", "holds files that this library did not save"},
      {"what a killed save left, its mark a pipe", "holds files that this library did not save"}};
  int found = 0;
  for (auto const& t : both())
    if (auto const why = reasons.find(t.name); why != reasons.end()) {
      ++found;
      check(t, "c", nothing_before, saved, [&](scene const& s) {
        return "'" + s.target + "' " + why->second +
               ", so saving there would lose it; move it away or choose another path";
      });
    }
  CHECK(found == int(reasons.size()));
  // A path that is a link means its target, which is checked like any other path.
  for (auto const& t : files) {
    std::string const name = t.name;
    if (name == "a link to a folder" || name == "a relative link to a folder")
      check(t, "c", nothing_before, saved, [](scene const& s) {
        return "'" + s.outside +
               "/folder' holds files that this library did not save, so saving there would lose it; move it away or "
               "choose another path";
      });
    if (name == "a link to a file")
      check(t, "c", nothing_before, saved, [](scene const& s) {
        return "'" + s.outside + "/file' is a file, so saving there would lose it; move it away or choose another path";
      });
    if (name == "a link to nowhere" || name == "a link to itself")
      check(t, "c", nothing_before, saved, [&](scene const& s) {
        return "'" + s.target + "' cannot be resolved (" +
               (name == "a link to nowhere" ? "No such file or directory" : "Too many levels of symbolic links") +
               "); remove it if it is a symbolic link, or choose another path";
      });
  }
  if (::geteuid() == 0)
    for (auto const& t : folders)
      if (std::string(t.name).starts_with("another user's"))
        check(t, "c", nothing_before, saved, [](scene const& s) {
          return "'" + s.target +
                 "' belongs to another user, so saving there would lose it; move it away or choose another path";
        });
}

TEST_CASE("links: at the names of files in a checkpoint that is replaced, and of one that was abandoned") {
  for (auto const& t : files)
    for (auto const* name : {"state.json", "manifest.json", ".constrain"})
      for (bool const abandoned : {false, true}) {
        scene const s;
        CAPTURE(std::string(t.name));
        CAPTURE(std::string(name));
        CAPTURE(abandoned);
        save(s.target, "old");
        auto const directory = abandoned ? abandon(s.target) : s.target;
        fs::remove(directory + "/" + name);
        t.put(s, directory + "/" + name);
        auto const outside = snapshot(s.outside);
        auto const here = snapshot(directory + "/" + name);
        auto const said = sentence([&] { save(s.target, "new"); });
        if (!said.empty())
          CHECK(said.ends_with(", so saving there would lose it; move it away or choose another path"));
        CHECK(said.empty() == (abandoned || std::string(name) != "manifest.json"));
        // Of a file with two names, one of them in a checkpoint, that one goes.
        bool const two_names = std::string(t.name) == "a hard link";
        if (!two_names) CHECK((snapshot(s.outside) == outside));
        CHECK(read_file(s.outside + "/file") == "years of work");
        // Files that the library did not write still exist somewhere.
        bool kept = false;
        for (auto const& entry : fs::recursive_directory_iterator(s.shared))
          kept = kept || snapshot(entry.path()) == here;
        bool const ours_by_name = std::string(t.name) == "a file" || two_names;
        if (!ours_by_name) CHECK(kept);
        ++cases;
      }
}

TEST_CASE("links: where a file system has no handles, the inode's number tells a copy") {
  knows_handles = false;
  scene const s;
  save(s.target, "old");
  auto const left = abandon(s.target);
  fs::copy(left, s.at(".c.partial-copy"), fs::copy_options::recursive);
  auto const copy = snapshot(s.at(".c.partial-copy"));
  save(s.target, "new");
  CHECK(load(s.target) == "new");
  CHECK_FALSE(fs::exists(left));
  CHECK((snapshot(s.at(".c.partial-copy")) == copy));
  knows_handles = true;
}

TEST_CASE("links: what a link at the old checkpoint's name leads to is not read for it") {
  scene const s;
  fs::create_directory_symlink(s.outside + "/saved", s.at(".c.previous"));
  CHECK_FALSE(io::directory_reader::finds(s.target));
  CHECK(sentence([&] { load(s.target); }) ==
        "the directory '" + s.target +
            "' cannot be opened (No such file or directory); check the path and its permissions");
}

TEST_CASE("links: there were enough of them") {
  MESSAGE(cases << " cases");
  CHECK(cases >= 40);
}
