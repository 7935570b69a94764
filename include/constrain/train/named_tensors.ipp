#pragma once

#include "constrain/train/named_tensors.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/comm/fingerprint.hpp"
#include "constrain/program/setting.hpp"

#include <cstddef>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A list of names for an error, or "none" if the list is empty.
[[gnu::cold]] CONSTRAIN_INLINE std::string list_or_none(std::string const& list) {
  return list.empty() ? std::string("none") : list;
}

/// Appends a name to the list of names in an error.
[[gnu::cold]] CONSTRAIN_INLINE void append_name(std::string& list, std::string const& name) {
  if (!list.empty()) list += ", ";
  list += name;
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<parameter_view> named_tensors::parameters() const {
  std::vector<parameter_view> views;
  for (int i = 0; i < list_.size; ++i) {
    auto const& info = list_.parameters[i];
    std::string_view const name(list_.names + info.name_offset, static_cast<std::size_t>(info.name_length));
    views.emplace_back(tensor_view(*memory_, info, group_).of_parameter(list_, i), name, info.role);
  }
  return views;
}

[[gnu::cold]] CONSTRAIN_INLINE tensor_view named_tensors::gradient(std::string_view name, bool is_available,
                                                                   double const* loss_scale) const {
  std::string names;
  for (int i = 0; i < list_.size; ++i) {
    auto const& info = list_.parameters[i];
    append_name(names, list_.name(i));
    if (list_.name(i) != name) continue;
    if (!is_trainable(info.role))
      throw error({"gradient: ", name,
                   " is frozen and has no gradient; leave out the policy that freezes it (ct::freeze, ct::train_only), "
                   "or let the model give it a role other than ct::role::frozen"});
    if (info.gradient_offset < 0)
      throw error({"gradient: the gradient of ", name,
                   " is not kept after the update of this parameter in the backward pass; to read the gradient, train "
                   "without optimizer::in_backward"});
    if (!is_available)
      throw error(
          {"gradient: the gradient of ", name,
           " is not in memory: no step has run yet, or evaluate, predict, generate, a load or a failed step came after "
           "the last step; read it right after a step"});
    return tensor_view(*memory_, info.gradient(), group_).multiplied_by(loss_scale);
  }
  throw error({"gradient: there is no parameter '", name, "'; the parameters are ", names});
}

[[gnu::cold]] CONSTRAIN_INLINE tensor_view named_tensors::state(std::string_view parameter,
                                                                std::string_view name) const {
  std::string names;
  bool is_known = false;
  for (int i = 0; i < list_.size; ++i) {
    append_name(names, list_.name(i));
    is_known = is_known || list_.name(i) == parameter;
  }
  if (!is_known) throw error({"state: there is no parameter '", parameter, "'; the parameters are ", names});
  names.clear();
  for (int i = 0; i < list_.states_size; ++i) {
    auto const& state = list_.states[i];
    if (list_.name(state.parameter) != parameter) continue;
    if (list_.name(state) == name) return tensor_view(*memory_, state, group_);
    append_name(names, list_.name(state));
  }
  throw error({"state: ", parameter, " has no optimizer state '", name, "'; its states: ", list_or_none(names)});
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t named_tensors::offset_of_setting(std::string_view name,
                                                                             char const* call) const {
  std::string names;
  for (int i = 0; i < list_.settings_size; ++i) {
    if (list_.name(list_.settings[i]) == name) return list_.settings[i].offset;
    append_name(names, list_.name(list_.settings[i]));
  }
  throw error({call, ": the model has no setting '", name, "'; its settings: ", list_or_none(names)});
}

[[gnu::cold]] CONSTRAIN_INLINE double named_tensors::setting(std::string_view name) const {
  double x = 0;
  memory_->read(offset_of_setting(name, "setting"), &x, sizeof x);
  return x;
}

[[gnu::cold]] CONSTRAIN_INLINE void named_tensors::set(std::string_view name, double x, communicator& world) const {
  agreed(world, joint_call::set, [&] {
    offset_of_setting(name, "set");
    check_number("set", concat({"the setting ", name}).c_str(), x, range_of_setting(name));
  });
  if (world.size() > 1) {
    fingerprint value;
    value.add(concat({"the setting ", name}), x);
    check_ranks_agree(world, joint_call::set, value);
  }
  set_unchecked(name, x);
}

[[gnu::cold]] CONSTRAIN_INLINE void named_tensors::set_unchecked(std::string_view name, double x) const {
  memory_->write(offset_of_setting(name, "set"), &x, sizeof x);
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
