#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/train/saved/tensor_files.hpp"
#include "constrain/train/tensor_view.hpp"

#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The tensors of a trainer or an inference object by name, independent of the object's type.
class named_tensors {
public:
  /// `memory`: the arena of the tensors. `group`: the ranks that together hold a tensor (`ranks::storage_group`).
  named_tensors(parameter_list const& list, arena& memory, communicator& group)
      : list_(list), memory_(&memory), group_(&group) {}

  /// Views of all parameters, in the order in which the model creates them.
  std::vector<parameter_view> parameters() const;
  /// The gradient of a parameter. In the arena, the gradient is multiplied by `*loss_scale` (see
  /// tensor_view::multiplied_by). `is_available`: whether the gradients of the last step are still in the arena. Throws
  /// `error` if `is_available` is false, for an unknown or frozen parameter, and with optimizer::in_backward.
  tensor_view gradient(std::string_view name, bool is_available, double const* loss_scale) const;
  /// The optimizer state `name` of a parameter. Throws `error` for an unknown parameter or state.
  tensor_view state(std::string_view parameter, std::string_view name) const;
  /// Whether the program has a setting of this name.
  bool has_setting(std::string_view name) const { return list_.has_setting(name); }
  /// The value of a setting. Throws `error` if the program has no such setting.
  double setting(std::string_view name) const;
  /// Changes a setting. Throws `error` if the program has no such setting, or if `x` is out of range. Collective over
  /// `world`: throws on all ranks if they pass different values.
  void set(std::string_view name, double x, communicator& world) const;

  /// `set` without the checks of `x`, for values that the trainer computes. All ranks must pass the same value. Throws
  /// `error` if the program has no such setting.
  void set_unchecked(std::string_view name, double x) const;

private:
  /// The arena offset of a setting; `call`: the first word of the error. Throws `error` if the program has no such
  /// setting.
  std::int64_t offset_of_setting(std::string_view name, char const* call) const;

  parameter_list list_;
  arena* memory_;
  communicator* group_;
};

/// The name of trainable parameter number `gradient`, counted from 0; empty: no such parameter.
std::string_view name_of_gradient(parameter_list const& list, int gradient);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/named_tensors.ipp"
#endif
