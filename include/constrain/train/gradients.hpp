#pragma once

#include "constrain/base/error.hpp"
#include "constrain/train/saved/tensor_files.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The parameter of that name, for `trainer::gradient`. Throws `error` for an unknown or frozen parameter, and if the
/// gradients are not in the arena any more (`kept` is false).
[[gnu::noinline]] inline parameter_info const& find_gradient(parameter_list const& list, std::string const& name,
                                                             bool kept) {
  std::string known;
  for (int i = 0; i < list.size; ++i) {
    auto const& info = list.parameters[i];
    known += concat({(i > 0 ? ", " : ""), list.name(i)});
    if (list.name(i) != name) continue;
    if (info.gradient_offset < 0) throw error({"gradient: ", name, " is frozen and has none; train it"});
    if (!kept)
      throw error(
          {"gradient: the gradient of ", name, " is not kept any more (or not yet); ask for it right after a step"});
    return info;
  }
  throw error({"gradient: there is no parameter ", name, "; there are ", known});
}

/// Name of the `gradient`-th trainable parameter; empty if there are fewer.
[[gnu::noinline]] inline std::string_view name_of_gradient(parameter_list const& list, int gradient) {
  for (int i = 0; i < list.size; ++i) {
    auto const& info = list.parameters[i];
    if (is_trainable(info.role) && gradient-- == 0)
      return {list.names + info.name_offset, static_cast<std::size_t>(info.name_length)};
  }
  return {};
}

} // namespace constrain::detail
