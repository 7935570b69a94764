#pragma once

#include "constrain/program/variant.hpp"

#include <csignal>

namespace constrain::inline CONSTRAIN_VARIANT {

/// While it lives, a first SIGINT or SIGTERM is noted instead of ending the process; a second ends it as ever.
class interruption {
public:
  interruption() {
    noted_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { noted_ = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; ++i) ::sigaction(signals[i], &action, &before_[i]);
  }
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;
  ~interruption() {
    for (int i = 0; i < 2; ++i) ::sigaction(signals[i], &before_[i], nullptr);
  }

  bool noted() const { return noted_ != 0; }

private:
  static constexpr int signals[] = {SIGINT, SIGTERM};
  static inline std::sig_atomic_t volatile noted_ = 0;
  struct sigaction before_[2] {};
};

} // namespace constrain
