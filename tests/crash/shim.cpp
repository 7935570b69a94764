#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Preloaded into a process, spoils its CRASH_AT-th call to the file system that changes something: CRASH_HOW is the
// errno that it gives, or 0, where the process is killed before the call. A write is half done, and the next one fails.
// A short write comes before a failing one.

namespace {

/// Whether this call is the one.
bool here() {
  static long const at = [] {
    char const* const text = std::getenv("CRASH_AT");
    return text == nullptr ? 0 : std::atol(text);
  }();
  static int const how = [] {
    char const* const text = std::getenv("CRASH_HOW");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  static long calls = 0;
  if (++calls != at) return false;
  if (how == 0) ::kill(::getpid(), SIGKILL);
  errno = how;
  return true;
}

template <class function> function next(char const* name) {
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int open(char const* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (here()) return -1;
  }
  return next<int (*)(char const*, int, ...)>("open")(path, flags, mode);
}
int openat(int directory, char const* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (here()) return -1;
  }
  return next<int (*)(int, char const*, int, ...)>("openat")(directory, path, flags, mode);
}
ssize_t write(int file, void const* bytes, size_t size) {
  static bool spoiled = false;
  auto const real = next<ssize_t (*)(int, void const*, size_t)>("write");
  if (spoiled) return spoiled = false, -1;
  if (!here()) return real(file, bytes, size);
  if (size < 2) return -1;
  spoiled = true;
  int const how = errno;
  auto const written = real(file, bytes, size / 2);
  errno = how;
  return written;
}
int fsync(int file) { return here() ? -1 : next<int (*)(int)>("fsync")(file); }
int mkdir(char const* path, mode_t mode) {
  return here() ? -1 : next<int (*)(char const*, mode_t)>("mkdir")(path, mode);
}
int rename(char const* from, char const* to) {
  return here() ? -1 : next<int (*)(char const*, char const*)>("rename")(from, to);
}
int unlink(char const* path) { return here() ? -1 : next<int (*)(char const*)>("unlink")(path); }
int rmdir(char const* path) { return here() ? -1 : next<int (*)(char const*)>("rmdir")(path); }
int mkdirat(int directory, char const* path, mode_t mode) {
  return here() ? -1 : next<int (*)(int, char const*, mode_t)>("mkdirat")(directory, path, mode);
}
int renameat(int from_directory, char const* from, int to_directory, char const* to) {
  return here() ? -1
                : next<int (*)(int, char const*, int, char const*)>("renameat")(from_directory, from, to_directory, to);
}
int unlinkat(int directory, char const* path, int flags) {
  return here() ? -1 : next<int (*)(int, char const*, int)>("unlinkat")(directory, path, flags);
}
int close(int file) { return here() ? -1 : next<int (*)(int)>("close")(file); }

// Not every C library has renameat2, so the exchange of two names is intercepted here.
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (auto& argument : a) argument = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_renameat2 && here()) return -1;
  return next<long (*)(long, ...)>("syscall")(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}
