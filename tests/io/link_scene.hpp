#pragma once

#include "../temporary_directory.hpp"

#include <constrain/io/descriptor.hpp>
#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// A folder where everybody saves beside one that belongs to somebody, and what can be in the way of a save: links, hard
// links, pipes, other people's directories.

namespace constrain::test {

namespace fs = std::filesystem;
using way = io::directory_writer::exchange;

inline int cases = 0; // that `check` has seen

// Hundreds of saves, each brought to disk a dozen times: on a file system in memory, where there is one.
[[maybe_unused]] inline int const in_memory = ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

inline void save(std::string const& path, std::string const& content, way how = way::yes) {
  io::directory_writer w(path, how);
  w.write("state.json", content);
  w.write("weights.bin", content);
  w.commit();
}

inline std::string load(std::string const& path) {
  io::directory_reader const r(path);
  return std::string(r.text("state.json"));
}

/// Leaves what a writer that was killed amid a save does, and returns its name.
inline std::string abandon(std::string const& path) {
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
inline std::map<std::string, std::string> snapshot(fs::path const& root) {
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

inline void folder(std::string const& path) {
  fs::create_directory(path);
  write_file(path + "/thesis.txt", "years of work");
  write_file(path + "/state.json", "mine, too");
}

inline void pipe(std::string const& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no pipe");
}

inline void local_socket(std::string const& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  io::descriptor const made(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::bind(made.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
    throw std::runtime_error("no socket");
}

/// What is no directory.
inline std::vector<thing> const files = {
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
inline std::vector<thing> const folders = {
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
inline void check(thing const& t, std::string const& name, std::function<void(scene const&)> const& before,
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

inline std::string nothing_said(scene const&) { return {}; }
inline void nothing_before(scene const&) {}

inline std::vector<thing> both() {
  auto all = files;
  all.insert(all.end(), folders.begin(), folders.end());
  return all;
}

} // namespace constrain::test
