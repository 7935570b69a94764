#include <constrain/device/cpu/arithmetic_peak.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ct = constrain;

namespace {

/// Processes that keep every processor busy three times over.
class competing_load {
public:
  competing_load() {
    for (int i = 0; i < 3 * ct::available_processors(); ++i) {
      auto const child = ::fork();
      if (child == 0) spin();
      children_.push_back(child);
    }
    ::usleep(50'000);
  }
  ~competing_load() {
    for (auto const child : children_) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
  }

private:
  [[noreturn]] static void spin() {
    for (int volatile x = 0;;) x = x ^ 1;
  }
  std::vector<pid_t> children_;
};

} // namespace

TEST_CASE("the peak is about the same at every start, on a busy machine too") {
  double low = 0, high = 0;
  // If the machine's other programs disturb most measurements, the peak is not known, and nobody is told another.
  auto const measure = [&] {
    int known = 0;
    for (int i = 0; i < 200 && known < 4; ++i) {
      auto const peak = ct::arithmetic_peak<float>();
      if (peak == 0) continue;
      low = low == 0 ? peak : std::min(low, peak), high = std::max(high, peak);
      ++known;
    }
    return known;
  };
  CHECK(measure() == 4);
  {
    competing_load const load;
    CHECK(measure() == 4);
  }
  MESSAGE("from ", low * 1e-9, " to ", high * 1e-9, " GFLOP/s");
  // A program on the second hardware thread of the same core, even in another virtual machine, halves the rate. One
  // long measurement by the wall's clock would give a quarter of it.
  CHECK(high < 3 * low);
}
