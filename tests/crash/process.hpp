#pragma once

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace constrain::test {

/// A program that runs beside the test, everything that it says in a file. It is killed where the test fails.
class process {
public:
  process(std::vector<std::string> command, std::vector<std::string> variables, std::string const& said) {
    auto const pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (auto& text : texts) all.push_back(text.data());
      return all;
    };
    auto arguments = pointers(command), environment = pointers(variables);
    arguments.push_back(nullptr);
    for (char** inherited = environ; *inherited != nullptr; ++inherited) environment.push_back(*inherited);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    bool const started = ::posix_spawnp(&id_, arguments[0], &files, nullptr, arguments.data(), environment.data()) == 0;
    posix_spawn_file_actions_destroy(&files);
    REQUIRE(started);
  }
  process(process const&) = delete;
  process& operator=(process const&) = delete;
  ~process() {
    if (id_ == 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

  pid_t id() const { return id_; }
  /// The status of waitpid.
  int wait() {
    int status = 0;
    REQUIRE(::waitpid(id_, &status, 0) == id_);
    id_ = 0;
    return status;
  }

private:
  pid_t id_ = 0;
};

} // namespace constrain::test
