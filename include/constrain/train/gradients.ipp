#pragma once

#include "constrain/train/gradients.hpp"

#include "constrain/base/error.hpp"

#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE parameter_info const& find_gradient(parameter_list const& list, std::string const& name,
                                                                   bool kept) {
  std::string known;
  for (int i = 0; i < list.size; ++i) {
    auto const& info = list.parameters[i];
    known += concat({(i > 0 ? ", " : ""), list.name(i)});
    if (list.name(i) != name) continue;
    if (info.gradient_offset < 0) throw error({"gradient: ", name, " is frozen and has no gradient; unfreeze it"});
    if (!kept) throw error({"gradient: the gradient of ", name, " is not available now; read it right after a step"});
    return info;
  }
  throw error({"gradient: there is no parameter ", name, "; the parameters are ", known});
}

[[gnu::cold]] CONSTRAIN_INLINE state_info const& find_state(parameter_list const& list, std::string_view parameter,
                                                            std::string_view name) {
  std::string known;
  for (int i = 0; i < list.states_size; ++i) {
    auto const& state = list.states[i];
    if (list.name(state.parameter) != parameter) continue;
    if (list.name(state) == name) return state;
    known += (known.empty() ? "" : ", ") + list.name(state);
  }
  throw error({"state: ", parameter, " has no optimizer state ", name, "; its states are ",
               known.empty() ? std::string("none") : known});
}

[[gnu::cold]] CONSTRAIN_INLINE std::string_view name_of_gradient(parameter_list const& list, int gradient) {
  for (int i = 0; i < list.size; ++i) {
    auto const& info = list.parameters[i];
    if (is_trainable(info.role) && gradient-- == 0)
      return {list.names + info.name_offset, static_cast<std::size_t>(info.name_length)};
  }
  return {};
}

} // namespace constrain::detail
