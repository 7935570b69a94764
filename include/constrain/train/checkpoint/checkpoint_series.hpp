#pragma once

#include "constrain/io/directory_replace.hpp"
#include "constrain/io/path.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The checkpoints of one run in a directory, each in one of its own: "step-40".
class checkpoint_series {
public:
  explicit checkpoint_series(std::string directory) : directory_(std::move(directory)) {}

  std::string path(std::int64_t step) const { return directory_ + "/step-" + std::to_string(step); }

  /// Steps of which there is one, the last first.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (auto const& name : io::directory_names(directory_).value_or(std::vector<std::string>{})) {
      std::int64_t step = 0;
      auto const* const end = name.data() + name.size();
      if (name.starts_with("step-") && std::from_chars(name.data() + 5, end, step).ptr == end && path(step).ends_with("/" + name))
        found.push_back(step);
    }
    std::sort(found.begin(), found.end(), std::greater<>{});
    return found;
  }

  /// Removes all but the last `count` before or at a step. What is damaged is left alone.
  void keep(std::int64_t count, std::int64_t last) const {
    for (auto const step : steps()) {
      if (step > last || count-- > 0) continue;
      try {
        io::detail::check_replaceable(path(step));
        io::detail::remove_directory(path(step), path(step) + ".kept-" + io::unlikely_suffix());
      } catch (error const&) {
      }
    }
  }

private:
  std::string directory_;
};

} // namespace constrain
