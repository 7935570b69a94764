#pragma once

#include "constrain/op/cast/cast.hpp"
#include "constrain/op/narrow_weight/narrow_weight.hpp"
#include "constrain/op/update/update_rule.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A temporary fp32 copy of a parameter that is stored in 16 bits: the optimizer updates the copy, and `store` rounds
/// it into the parameter. The memory of one iteration's tensor is enough for the copy, because all nodes that use the
/// copy are inside the loops over the parameter's axes.
class working_copy {
public:
  /// Appends the node that computes the fp32 copy of `parameter`, and lets `rule` work on the copy.
  /// `compensation_type`: the type of the state "compensation", which keeps the error of rounding to nearest for the
  /// next update; u8: there is no such state, and rounding is stochastic.
  constexpr working_copy(builder& out, update_rule& rule, int parameter, dtype compensation_type)
      : out_(out), rule_(rule), parameter_{parameter, at::current} {
    auto const stored = out.program.values[parameter];
    value_info copy;
    copy.type = accumulator_of(stored.type);
    copy.role = role::workspace;
    copy.shape = stored.shape;
    copy.axes = stored.axes;
    copy.accumulates = true; // element-wise updates change it in place
    copy.belongs_to = parameter;
    copy.line = stored.line;
    copy_ = {out.program.add_value(copy), at::current};
    if (compensation_type == dtype::u8) {
      out.call<op::cast>({parameter_}, {copy_}, {.to = copy.type}, stored.line);
    } else {
      compensation_ = rule.state("compensation", rule.shape(), compensation_type).where();
      out.program.values[compensation_.value].resets_with_parameter = true;
      out.call<op::compensated_sum>({parameter_, compensation_}, {copy_}, {}, stored.line);
    }
    rule.work_on(copy_);
  }

  /// Appends the nodes that store the updated copy in the parameter. `index`: the parameter's index among the trained
  /// parameters.
  constexpr void store(int index) {
    auto const info = out_.program.values[parameter_.value];
    auto const norm_and_scale = rule_.scale().where();
    if (!compensation_) {
      op::round_stochastically::options const options{index, info.shape.elements(),
                                                      out_.program.is_divided(parameter_.value)};
      out_.call<op::round_stochastically>({copy_, norm_and_scale}, {parameter_}, options, info.line);
      return;
    }
    value_info error = out_.program.values[copy_.value];
    error.accumulates = false; // by this flag, `print` distinguishes the error from the copy
    ref const rounding_error{out_.program.add_value(error), at::current};
    out_.call<op::rounding_error>({copy_}, {rounding_error}, {}, info.line);
    out_.call<op::assign>({copy_, norm_and_scale}, {parameter_}, {.to = info.type}, info.line);
    auto const type = out_.program.values[compensation_.value].type;
    out_.call<op::assign>({rounding_error, norm_and_scale}, {compensation_}, {.to = type}, info.line);
  }

private:
  builder& out_;
  update_rule& rule_;
  ref parameter_, copy_, compensation_;
};

} // namespace constrain::detail
