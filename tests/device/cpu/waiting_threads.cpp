#include <constrain/device/cpu/waiting_threads.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>

namespace ct = constrain;

namespace {

/// A variable of the environment while it lives; without a value it is not set.
class variable {
public:
  variable(char const* name, char const* value) : name_(name) {
    if (char const* const before = std::getenv(name)) before_ = before;
    if (value != nullptr) ::setenv(name, value, 1);
    else ::unsetenv(name);
  }
  ~variable() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    else ::unsetenv(name_);
  }

private:
  char const* name_;
  std::optional<std::string> before_;
};

} // namespace

TEST_CASE("threads spin while they wait, unless the environment says otherwise or there is one") {
  bool const several = ct::thread_count() > 1;
  variable const policy("OMP_WAIT_POLICY", nullptr), count("GOMP_SPINCOUNT", nullptr), time("KMP_BLOCKTIME", nullptr);
  CHECK(ct::waiting_threads_spin() == several);
  for (auto const* passive : {"passive", "PASSIVE"}) {
    variable const said("OMP_WAIT_POLICY", passive);
    CHECK_FALSE(ct::waiting_threads_spin());
  }
  variable const active("OMP_WAIT_POLICY", "active");
  CHECK(ct::waiting_threads_spin() == several);
  variable const short_spin("GOMP_SPINCOUNT", "100");
  CHECK_FALSE(ct::waiting_threads_spin());
}

TEST_CASE("a parallel loop takes some time, and only a long one hurts") {
  double const seconds = ct::parallel_loop_seconds();
  CHECK((seconds > 0 && std::isfinite(seconds)));
  CHECK_FALSE(ct::spinning_is_slower(7e-6)); // sleeping threads
  CHECK(ct::spinning_is_slower(1e-3));
}
