#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/io/atomic_file.hpp>
#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <constrain/io/event_file.hpp>
#include <constrain/io/log_file.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

// Links, hard links, pipes and other people's directories at every name that saving touches: nothing outside changes,
// and what is in the way is one sentence.

namespace fs = std::filesystem;
namespace io = constrain::io;
using constrain::test::read_file, constrain::test::sentence, constrain::test::temporary_directory,
    constrain::test::write_file;
using way = io::directory_writer::exchange;

namespace {

int cases = 0;

std::function<void()> before_exchange; // of two names, once
bool knows_handles = true;             // the file system

// Hundreds of saves, each brought to disk a dozen times: on a file system in memory, where there is one.
[[maybe_unused]] int const in_memory = ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

void save(std::string const& path, std::string const& content, way how = way::yes) {
  io::directory_writer w(path, how);
  w.write("state.json", content);
  w.write("weights.bin", content);
  w.commit();
}

std::string load(std::string const& path) {
  io::directory_reader const r(path);
  return std::string(r.text("state.json"));
}

/// Leaves what a writer that was killed amid a save does, and returns its name.
std::string abandon(std::string const& path) {
  auto const child = ::fork();
  if (child == 0) {
    io::directory_writer w(path);
    w.write("state.json", "unfinished");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  for (auto const& entry : fs::directory_iterator(fs::path(path).parent_path()))
    if (entry.path().filename().string().starts_with("." + fs::path(path).filename().string() + ".partial-"))
      return entry.path();
  throw std::runtime_error("nothing was left");
}

/// Everything that a path is and holds, without following links: kind and mode, inode, owner, content or link target.
std::map<std::string, std::string> snapshot(fs::path const& root) {
  std::map<std::string, std::string> all;
  auto const add = [&](fs::path const& path) {
    struct stat s {};
    if (::lstat(path.c_str(), &s) != 0) return;
    auto& text = all[path.lexically_relative(root).string()];
    text = std::to_string(s.st_mode) + " " + std::to_string(s.st_ino) + " " + std::to_string(s.st_uid) + " " +
           std::to_string(s.st_nlink) + " ";
    if (S_ISREG(s.st_mode)) text += read_file(path);
    if (S_ISLNK(s.st_mode)) text += fs::read_symlink(path).string();
  };
  add(root);
  if (fs::is_directory(fs::symlink_status(root)))
    for (auto const& entry : fs::recursive_directory_iterator(root)) add(entry.path());
  return all;
}

/// `outside` belongs to somebody; `shared` is where everybody saves.
struct scene {
  temporary_directory scratch;
  std::string outside = scratch / "outside", shared = scratch / "shared", target = shared + "/c";

  scene() {
    fs::create_directories(outside + "/folder");
    fs::create_directory(shared);
    write_file(outside + "/folder/thesis.txt", "years of work");
    write_file(outside + "/folder/state.json", "mine, too");
    write_file(outside + "/file", "years of work");
    save(outside + "/saved", "an archived checkpoint");
    ::umask(022);
  }
  std::string at(std::string const& name) const { return shared + "/" + name; }
};

using placing = std::function<void(scene const&, std::string const&)>; // at this path

struct thing {
  char const* name;
  placing put;
};

void folder(std::string const& path) {
  fs::create_directory(path);
  write_file(path + "/thesis.txt", "years of work");
  write_file(path + "/state.json", "mine, too");
}

void pipe(std::string const& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no pipe");
}

void local_socket(std::string const& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  io::descriptor const made(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::bind(made.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
    throw std::runtime_error("no socket");
}

/// What is no directory.
std::vector<thing> const files = {
    {"a link to a folder",
     [](scene const& s, std::string const& p) { fs::create_directory_symlink(s.outside + "/folder", p); }},
    {"a relative link to a folder",
     [](scene const&, std::string const& p) { fs::create_directory_symlink("../outside/folder", p); }},
    {"a link to a checkpoint",
     [](scene const& s, std::string const& p) { fs::create_directory_symlink(s.outside + "/saved", p); }},
    {"a link to what a killed save left",
     [](scene const& s, std::string const& p) { fs::create_directory_symlink(abandon(s.outside + "/c"), p); }},
    {"a link to a file", [](scene const& s, std::string const& p) { fs::create_symlink(s.outside + "/file", p); }},
    {"a link to a link",
     [](scene const& s, std::string const& p) {
       fs::create_directory_symlink("folder", s.outside + "/link");
       fs::create_directory_symlink(s.outside + "/link", p);
     }},
    {"a link to nowhere", [](scene const&, std::string const& p) { fs::create_symlink("nowhere", p); }},
    {"a link to itself", [](scene const&, std::string const& p) { fs::create_symlink(fs::path(p).filename(), p); }},
    {"a file", [](scene const&, std::string const& p) { write_file(p, "mine"); }},
    {"a hard link", [](scene const& s, std::string const& p) { fs::create_hard_link(s.outside + "/file", p); }},
    {"a pipe", [](scene const&, std::string const& p) { pipe(p); }},
    {"a socket", [](scene const&, std::string const& p) { local_socket(p); }},
};

/// Directories that are somebody's, however much they look like ours.
std::vector<thing> const folders = {
    {"a folder", [](scene const&, std::string const& p) { folder(p); }},
    {"a copied checkpoint",
     [](scene const& s, std::string const& p) { fs::copy(s.outside + "/saved", p, fs::copy_options::recursive); }},
    {"a checkpoint moved here", [](scene const& s, std::string const& p) { fs::rename(s.outside + "/saved", p); }},
    {"a checkpoint of this folder, renamed",
     [](scene const& s, std::string const& p) {
       save(s.at("other"), "mine");
       fs::rename(s.at("other"), p);
     }},
    {"a copy of what a killed save left",
     [](scene const& s, std::string const& p) {
       auto const left = abandon(s.target);
       fs::copy(left, p, fs::copy_options::recursive);
       fs::remove_all(left);
     }},
    {"what a killed save left elsewhere, moved",
     [](scene const& s, std::string const& p) { fs::rename(abandon(s.outside + "/c"), p); }},
    {"what a killed save of another name left",
     [](scene const& s, std::string const& p) { fs::rename(abandon(s.at("d")), p); }},
    {"a folder with a second name of a mark",
     [](scene const& s, std::string const& p) {
       folder(p);
       fs::create_hard_link(s.outside + "/saved/.constrain", p + "/.constrain");
     }},
    {"what a killed save left, its mark with a second name",
     [](scene const& s, std::string const& p) {
       fs::rename(abandon(s.target), p);
       fs::create_hard_link(p + "/.constrain", s.outside + "/mark");
     }},
    {"what a killed save left, its mark a link",
     [](scene const& s, std::string const& p) {
       fs::rename(abandon(s.target), p);
       fs::rename(p + "/.constrain", s.outside + "/mark");
       fs::create_symlink(s.outside + "/mark", p + "/.constrain");
     }},
    {"what a killed save left, its mark a pipe",
     [](scene const& s, std::string const& p) {
       fs::rename(abandon(s.target), p);
       fs::remove(p + "/.constrain");
       pipe(p + "/.constrain");
     }},
    {"a folder with an empty mark",
     [](scene const&, std::string const& p) {
       folder(p);
       write_file(p + "/.constrain", "");
     }},
    {"a folder with the begin of a mark",
     [](scene const& s, std::string const& p) {
       folder(p);
       write_file(p + "/.constrain", read_file(s.outside + "/saved/.constrain").substr(0, 70));
     }},
    {"another user's checkpoint",
     [](scene const& s, std::string const& p) {
       fs::rename(abandon(s.target), p);
       for (auto const* file : {"", "/.constrain", "/state.json"})
         if (::chown((p + file).c_str(), 65534, 65534) != 0)
           fs::permissions(p, fs::perms::owner_write, fs::perm_options::remove);
     }},
    {"another user's empty folder",
     [](scene const&, std::string const& p) {
       fs::create_directory(p);
       if (::chown(p.c_str(), 65534, 65534) != 0) write_file(p + "/file", "mine");
     }},
};

/// Does something with a thing at a name; neither that nor anything outside is another afterwards.
void check(thing const& t, std::string const& name, std::function<void(scene const&)> const& before,
           std::function<std::string(scene const&)> const& act,
           std::function<std::string(scene const&)> const& expected) {
  scene const s;
  CAPTURE(std::string(t.name));
  CAPTURE(name);
  before(s);
  t.put(s, s.at(name));
  auto const outside = snapshot(s.outside), here = snapshot(s.at(name));
  auto const said = act(s);
  if (auto const wanted = expected(s); wanted != "any") CHECK(said == wanted);
  CHECK((snapshot(s.outside) == outside));
  CHECK((snapshot(s.at(name)) == here));
  ++cases;
}

std::string nothing_said(scene const&) { return {}; }
void nothing_before(scene const&) {}

std::vector<thing> both() {
  auto all = files;
  all.insert(all.end(), folders.begin(), folders.end());
  return all;
}

} // namespace

// The library exchanges names through this function of the C library.
// (Most callers give fewer arguments than it hands on.)
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (auto& argument : a) argument = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_renameat2 && before_exchange) std::exchange(before_exchange, {})();
  return reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"))(number, a[0], a[1], a[2], a[3], a[4],
                                                                              a[5]);
}

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
          said += s.at(".c.previous") + "' is in the way, and not of this library's making, so '" + s.target;
          return said += "' cannot be replaced; move it away";
        });
  }
}

TEST_CASE("links: at the name of the checkpoint itself") {
  auto const saved = [](scene const& s) { return sentence([&] { save(s.target, "new"); }); };
  std::map<std::string, std::string> const reasons = {
      {"a file", "is a file"},
      {"a hard link", "is a file"},
      {"a pipe", "is no directory"},
      {"a socket", "is no directory"},
      {"a folder", "holds files that are not a checkpoint"},
      {"a folder with a second name of a mark", "holds files that are not a checkpoint"},
      {"a folder with an empty mark", "holds files that are not a checkpoint"},
      {"a folder with the begin of a mark", "holds files that are not a checkpoint"},
      {"a copy of what a killed save left", "holds files that are not a checkpoint"},
      {"what a killed save left elsewhere, moved", "holds files that are not a checkpoint"},
      {"what a killed save of another name left", "holds files that are not a checkpoint"},
      {"what a killed save left, its mark with a second name", "holds files that are not a checkpoint"},
      {"what a killed save left, its mark a link", "holds files that are not a checkpoint"},
      {"what a killed save left, its mark a pipe", "holds files that are not a checkpoint"}};
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
  // A path that is a link stands for what it leads to, which is examined like any other.
  for (auto const& t : files) {
    std::string const name = t.name;
    if (name == "a link to a folder" || name == "a relative link to a folder")
      check(t, "c", nothing_before, saved, [](scene const& s) {
        return "'" + s.outside +
               "/folder' holds files that are not a checkpoint, so saving there would lose it; move it away or choose "
               "another path";
      });
    if (name == "a link to a file")
      check(t, "c", nothing_before, saved, [](scene const& s) {
        return "'" + s.outside + "/file' is a file, so saving there would lose it; move it away or choose another path";
      });
    if (name == "a link to nowhere" || name == "a link to itself")
      check(t, "c", nothing_before, saved, [&](scene const& s) {
        return "'" + s.target + "' is a link that leads nowhere (" +
               (name == "a link to nowhere" ? "No such file or directory" : "Too many levels of symbolic links") +
               "); remove it or choose another path";
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
        // What is no file of ours is still somewhere.
        bool kept = false;
        for (auto const& entry : fs::recursive_directory_iterator(s.shared))
          kept = kept || snapshot(entry.path()) == here;
        bool const ours_by_name = std::string(t.name) == "a file" || two_names;
        if (!ours_by_name) CHECK(kept);
        ++cases;
      }
}

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
    char const* const why = link   ? "it is a link"
                            : hard ? "it has another name elsewhere, a hard link"
                                   : "it is no regular file";
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
          return "the events '" + s.at("name") +
                 "' cannot be written (File exists); make room or choose another directory";
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
        "'/dev/null' cannot be written (it is no regular file); remove it or choose another path");
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
        "the directory '" + s.target + "' cannot be opened (No such file or directory); check the path");
}

TEST_CASE("links: a path with a NUL byte") {
  scene const s;
  std::string const path = s.at(std::string("c\0d", 3));
  auto const said =
      "the path '" + s.at("c?d") + "' has a NUL byte, shown as '?', which no file's name can have; leave it out";
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

TEST_CASE("links: a name that changes between a save's abandoned directory and a link to somebody's, all the time") {
  scene const s;
  save(s.target, "old");
  auto const evil = s.at(".c.partial-evil");
  std::atomic<bool> done = false;
  std::thread swapping([&] {
    while (!done) {
      fs::create_directory_symlink(s.outside + "/folder", evil);
      ::unlink(evil.c_str());
      ::mkdir(evil.c_str(), 0777);
      ::rmdir(evil.c_str());
    }
  });
  auto const outside = snapshot(s.outside);
  for (int i = 0; i < 500; ++i) save(s.target, std::to_string(i));
  done = true;
  swapping.join();
  CHECK((snapshot(s.outside) == outside));
  CHECK(load(s.target) == "499");
}

#if defined(SYS_renameat2)
TEST_CASE("links: what is put in the checkpoint's place at the last moment is put aside") {
  for (auto const& t : both()) {
    scene const s;
    CAPTURE(std::string(t.name));
    save(s.target, "old");
    t.put(s, s.at("mine"));
    auto const outside = snapshot(s.outside), mine = snapshot(s.at("mine"));
    before_exchange = [&] { ::renameat2(AT_FDCWD, s.at("mine").c_str(), AT_FDCWD, s.target.c_str(), RENAME_EXCHANGE); };
    save(s.target, "new");
    CHECK_FALSE(before_exchange);
    CHECK(load(s.target) == "new");
    CHECK((snapshot(s.outside) == outside));
    int found = 0;
    for (auto const& entry : fs::directory_iterator(s.shared))
      if (snapshot(entry.path()) == mine) {
        ++found;
        CHECK(entry.path().string().starts_with(s.target + ".kept-"));
      }
    CHECK(found == 1);
    ++cases;
  }
}

TEST_CASE("links: a folder that is put in the checkpoint's place while it is saved is lost at no moment") {
  scene const s;
  save(s.target, "old");
  folder(s.at("mine"));
  auto const before = snapshot(s.at("mine"));
  std::atomic<bool> done = false;
  std::thread swapping([&] {
    while (!done) ::renameat2(AT_FDCWD, s.at("mine").c_str(), AT_FDCWD, s.target.c_str(), RENAME_EXCHANGE);
  });
  auto const places = [&] {
    std::vector<std::string> found;
    for (auto const& entry : fs::directory_iterator(s.shared))
      if (fs::exists(entry.path() / "thesis.txt")) found.push_back(entry.path());
    return found;
  };
  int refused = 0, kept = 0;
  for (int i = 0; i < 500; ++i) {
    refused += sentence([&] { save(s.target, "new"); }).empty() ? 0 : 1;
    if (fs::exists(s.at("mine"))) continue;
    // A save has put it aside: back with it, for the next.
    auto const there = places();
    REQUIRE(there.size() == 1);
    REQUIRE(there[0].starts_with(s.target + ".kept-"));
    fs::rename(there[0], s.at("mine"));
    ++kept;
  }
  done = true;
  swapping.join();
  MESSAGE(refused << " of 500 saves were refused, " << kept << " put it aside");
  REQUIRE(places().size() == 1);
  CHECK((snapshot(places()[0]) == before));
}
#endif

TEST_CASE("links: there were enough of them") {
  MESSAGE(cases << " cases");
  CHECK(cases >= 40);
}
