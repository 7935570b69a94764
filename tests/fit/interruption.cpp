#include <constrain/device/cpu/parallel.hpp>
#include <constrain/device/cpu/signal_stack.hpp>
#include <constrain/fit/interruption.hpp>

#include <doctest/doctest.h>

#include <csetjmp>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ct = constrain;

namespace {

int calls = 0;
bool on_another_stack = false;

void count(int) { ++calls; }

struct sigaction found {}; // by the program that installed `chained_handler()`

/// A handler that calls the one it found; for SIGTERM, it raises SIGINT before.
struct sigaction chained_handler() {
  struct sigaction action {};
  action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
    ++calls;
    if (number == SIGTERM) std::raise(SIGINT);
    found.sa_sigaction(number, info, context);
  };
  action.sa_flags = SA_SIGINFO;
  return action;
}

/// The handlers of the test's own framework, out of the way.
class default_handlers {
public:
  default_handlers() : interrupt_(std::signal(SIGINT, SIG_DFL)), terminate_(std::signal(SIGTERM, SIG_DFL)) {}
  ~default_handlers() { std::signal(SIGINT, interrupt_), std::signal(SIGTERM, terminate_); }

private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

/// Runs `f` in a process of its own; the status is waitpid's.
template <class function> int status_of(function const& f) {
  default_handlers const here;
  auto const id = ::fork();
  if (id == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(id, &status, 0) == id);
  return status;
}

bool ends_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
bool ends_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

void (*handler_of(int signal))(int) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

} // namespace

// Children are forked before anything here starts a thread: OpenMP does not survive a fork.
TEST_CASE("the second signal ends the process, by that signal") {
  for (int const signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    CHECK(ends_well(status_of([=] {
      ct::interruption const here;
      std::raise(signal);
      if (!here.noted()) ::_exit(1);
    })));
    CHECK(ends_by(status_of([=] {
                    ct::interruption const here;
                    std::raise(signal);
                    std::raise(signal);
                  }),
                  signal));
    CHECK(ends_by(status_of([=] {
                    { ct::interruption const here; }
                    std::raise(signal);
                  }),
                  signal));
  }
}

TEST_CASE("with SA_SIGINFO, an ignored signal and the default action are no handlers either") {
  auto const set = [](void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGINT, &action, nullptr);
  };
  CHECK(ends_by(status_of([=] {
                  set(SIG_DFL);
                  ct::interruption const here;
                  std::raise(SIGINT);
                  std::raise(SIGINT);
                }),
                SIGINT));
  CHECK(ends_well(status_of([=] {
    set(SIG_IGN);
    ct::interruption const here;
    std::raise(SIGINT);
    if (here.noted()) ::_exit(1);
  })));
}

TEST_CASE("after the last one has ended, a signal that was noted does not count as a first one") {
  CHECK(ends_by(status_of([] {
                  {
                    ct::interruption const here;
                    std::raise(SIGINT);
                  }
                  std::raise(SIGINT);
                }),
                SIGINT));
  CHECK(ends_well(status_of([] {
    for (int i = 0; i < 3; ++i) {
      ct::interruption const here;
      if (here.noted()) ::_exit(1);
      std::raise(SIGTERM);
      if (!here.noted()) ::_exit(2);
    }
  })));
}

TEST_CASE("of two that overlap, the one that ends first takes nothing from the other") {
  CHECK(ends_well(status_of([] {
    auto* const one = new ct::interruption;
    ct::interruption const other;
    delete one;
    std::raise(SIGINT);
    if (!other.noted()) ::_exit(1);
  })));
  CHECK(ends_by(status_of([] {
                  auto* const one = new ct::interruption;
                  {
                    ct::interruption const other;
                    delete one;
                  }
                  std::raise(SIGINT);
                }),
                SIGINT));
  // A signal is noted by all that live; one that begins later has its own first signal.
  CHECK(ends_well(status_of([] {
    ct::interruption const one;
    std::raise(SIGINT);
    ct::interruption const other;
    if (!one.noted() || other.noted()) ::_exit(1);
    std::raise(SIGINT);
    if (!other.noted()) ::_exit(2);
  })));
}

TEST_CASE("a handler of the program's is called as well, and is there again afterwards") {
  default_handlers const undisturbed;
  std::signal(SIGINT, count);
  calls = 0;
  {
    ct::interruption const here;
    std::raise(SIGINT);
    CHECK(here.noted());
    CHECK(calls == 1);
    std::raise(SIGINT); // what a second signal does is the program's to say
    CHECK(calls == 2);
  }
  CHECK((handler_of(SIGINT) == &count));
  std::raise(SIGINT);
  CHECK(calls == 3);
}

TEST_CASE("a handler that the program installs meanwhile stays, and may put back what it found") {
  default_handlers const undisturbed;
  calls = 0;
  void (*found)(int) = nullptr;
  {
    ct::interruption const here;
    found = std::signal(SIGTERM, count);
    std::raise(SIGTERM);
    CHECK(calls == 1);
    CHECK_FALSE(here.noted());
  }
  CHECK((handler_of(SIGTERM) == &count));
  std::signal(SIGTERM, found);
  {
    ct::interruption const here;
    std::raise(SIGTERM);
    CHECK(here.noted());
  }
  CHECK((handler_of(SIGTERM) == SIG_DFL));
}

TEST_CASE("a handler that calls the one it found is called once, also by a later object") {
  default_handlers const undisturbed;
  calls = 0;
  auto const chained = chained_handler();
  {
    ct::interruption const here;
    ::sigaction(SIGINT, &chained, &found);
    ::sigaction(SIGTERM, &chained, nullptr);
  }
  for (int signals = 1; signals <= 3; ++signals) {
    ct::interruption const here;
    std::raise(SIGINT);
    CHECK(here.noted());
    CHECK(calls == signals);
  }
  ct::interruption const here;
  std::raise(SIGTERM); // whose handler raises SIGINT
  CHECK(here.noted());
  CHECK(calls == 5);
}

TEST_CASE("a handler that calls the one it found is called once after an object has ended, and if it is put on top") {
  default_handlers const undisturbed;
  calls = 0;
  auto const chained = chained_handler();
  {
    ct::interruption const here;
    ::sigaction(SIGINT, &chained, &found);
  }
  { ct::interruption const here; }
  std::raise(SIGINT);
  CHECK(calls == 1);
  ct::interruption const here;
  ::sigaction(SIGINT, &chained, &found);
  std::raise(SIGINT);
  CHECK(here.noted());
  CHECK(calls == 2);
}

TEST_CASE("a handler that leaves with siglongjmp is called for the next object's signals, too") {
  default_handlers const undisturbed;
  static sigjmp_buf before_signal;
  calls = 0;
  std::signal(SIGINT, [](int) {
    ++calls;
    siglongjmp(before_signal, 1);
  });
  for (int signals = 1; signals <= 2; ++signals) {
    ct::interruption const here;
    if (sigsetjmp(before_signal, 1) == 0) std::raise(SIGINT);
    CHECK(here.noted());
    CHECK(calls == signals);
  }
}

TEST_CASE("an ignored signal stays ignored") {
  default_handlers const undisturbed;
  std::signal(SIGINT, SIG_IGN);
  {
    ct::interruption const here;
    std::raise(SIGINT);
    CHECK_FALSE(here.noted());
  }
  CHECK((handler_of(SIGINT) == SIG_IGN));
}

TEST_CASE("handlers run on a stack of their own, in every thread of the parallel loops") {
  struct sigaction action {};
  action.sa_handler = [](int) {
    stack_t now{};
    ::sigaltstack(nullptr, &now);
    on_another_stack = (now.ss_flags & SS_ONSTACK) != 0;
  };
  ct::parallel_for(64, [](std::int64_t) {}); // the threads exist already
  ct::interruption const here;
  action.sa_flags = SA_ONSTACK;
  struct sigaction before {};
  ::sigaction(SIGUSR1, &action, &before);
  int with = 0, threads = 0;
  CONSTRAIN_OMP(parallel)
  CONSTRAIN_OMP(critical) {
    on_another_stack = false;
    std::raise(SIGUSR1);
    ++threads;
    with += on_another_stack;
  }
  CHECK(threads == ct::thread_count());
  CHECK(with == threads);
  ::sigaction(SIGUSR1, &before, nullptr);
}

#if defined(_OPENMP)
TEST_CASE("threads that a later run creates anew have a stack for handlers, too") {
  int const before = omp_get_max_threads();
  omp_set_num_threads(4);
  ct::give_signal_stacks();
  CONSTRAIN_OMP(parallel num_threads(2))
  ::usleep(1000); // g++'s OpenMP library ends the other two threads
  ct::give_signal_stacks();
  int with = 0;
  CONSTRAIN_OMP(parallel reduction(+ : with)) {
    stack_t now{};
    ::sigaltstack(nullptr, &now);
    with += (now.ss_flags & SS_DISABLE) == 0 ? 1 : 0;
  }
  CHECK(with == 4);
  omp_set_num_threads(before);
}
#endif

TEST_CASE("a thread that has a stack for handlers keeps it, and one that ends leaves none behind") {
  default_handlers const undisturbed;
  std::thread([] {
    std::byte memory[1 << 16];
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = sizeof memory;
    ::sigaltstack(&own, nullptr);
    ct::give_signal_stacks();
    stack_t now{};
    ::sigaltstack(nullptr, &now);
    CHECK(now.ss_sp == memory);
  }).join();
  std::thread([] {
    ct::interruption const here;
    std::raise(SIGINT);
    CHECK(here.noted());
  }).join();
}
