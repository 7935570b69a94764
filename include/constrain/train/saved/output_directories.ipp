#pragma once

#include "constrain/train/saved/output_directories.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/real_path.hpp"
#include "constrain/train/saved/saved_series.hpp"

#include <optional>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_output_directories(std::string const& directory, std::int64_t keep_last,
                                                             std::string const& best, std::string const& records) {
  auto const name_inside = [](std::string const& path, std::string const& directory_path) {
    return path.empty() || directory_path.empty() ? std::nullopt : io::name_below(path, directory_path);
  };
  auto const check = [&](char const* option, std::string const& path) {
    auto const refusal = [&](char const* reason) {
      return error({"fit: .", option, " '", path, "' ", reason, "; choose a directory outside of .directory"});
    };
    auto const name = name_inside(path, directory);
    if (keep_last <= 0 && name) throw refusal("is, or is in, .directory, which every save replaces");
    if (keep_last > 0 && name && saved_series::step_of(*name))
      throw refusal("is, or is in, a saved run in .directory, and .keep_last removes old saved runs");
  };
  check("best", best), check("records", records);
  for (auto const* other : {&directory, &records})
    if (name_inside(*other, best))
      throw error({"fit: .best '", best, "' is, or contains, ", other == &directory ? ".directory" : ".records", " '",
                   *other, "', which a save to .best would delete; choose a directory outside of .best"});
}

} // namespace constrain::detail
