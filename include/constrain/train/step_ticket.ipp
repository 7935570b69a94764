#pragma once

#include "constrain/train/step_ticket.hpp"

#include "constrain/base/error.hpp"
#include "constrain/device/math.hpp"
#include "constrain/run/read_real.hpp"
#include "constrain/train/named_tensors.hpp"

#include <algorithm>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE step_result detail::result_of_step(
    step_outputs const& outputs, std::int64_t tokens, function_ref<double(host_view const&, std::int64_t)> read) {
  step_result r;
  r.loss = read(outputs.loss, 0);
  r.gradient_norm = read(outputs.norm_and_scale, 0);
  r.tokens = tokens;
  bool const is_finite = math::finite(r.gradient_norm);
  r.skipped = !is_finite && !outputs.updates_in_backward;
  if (is_finite) return r;
  int count = 0;
  for (int gradient = 0; gradient < outputs.gradient_squares.elements; ++gradient) {
    if (math::finite(read(outputs.gradient_squares, gradient))) continue;
    if (count++ == 0) r.not_finite = name_of_gradient(outputs.parameters, gradient);
  }
  r.more_not_finite = std::max(count - 1, 0);
  return r;
}

[[gnu::cold]] CONSTRAIN_INLINE step_result const& detail::open_step::wait() {
  if (results_ == nullptr) return result_;
  auto const* const results = results_->wait();
  // `results` holds copies of the norm (without the scale), the loss and the gradient squares, in this order, each
  // padded.
  step_outputs copies = outputs_;
  copies.norm_and_scale.offset = 0;
  copies.loss.offset = padded_bytes(outputs_.norm_and_scale, 1);
  copies.gradient_squares.offset = copies.loss.offset + padded_bytes(outputs_.loss, 1);
  result_ = result_of_step(copies, result_.tokens,
                           [&](host_view const& view, std::int64_t i) { return read_real(results, view, i); });
  results_ = nullptr;
  return result_;
}

[[gnu::cold]] CONSTRAIN_INLINE step_ticket& step_ticket::operator=(step_ticket&& other) noexcept {
  step_ = std::move(other.step_);
  result_ = other.result_;
  is_complete_ = std::exchange(other.is_complete_, false);
  return *this;
}

[[gnu::cold]] CONSTRAIN_INLINE step_result step_ticket::wait() {
  if (step_ != nullptr) {
    result_ = step_->wait();
    is_complete_ = true;
    step_ = nullptr;
  }
  if (!is_complete_)
    throw error("wait: this ticket has no step, because it is empty or was moved from; call `wait` on the ticket that "
                "`enqueue` returned or, if you moved that ticket, on the ticket that you moved it to");
  return result_;
}

} // namespace constrain
