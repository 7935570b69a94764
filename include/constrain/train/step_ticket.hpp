#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/run/pending_results.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/results.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The results of a step's plan, from which a `step_result` is made.
struct step_outputs {
  host_view norm_and_scale;   // [gradient norm, scale] of op::clip_coefficient; only the norm is used
  host_view loss;             // one element
  host_view gradient_squares; // squared norms of the gradients, one for each trainable parameter
  parameter_list parameters;  // of the trainer
  bool updates_in_backward{}; // whether the optimizer is optimizer::in_backward, which never skips a whole step
};

/// The result of a step. `read(view, i)`: element i of an output. `tokens`: the number of valid labels in the batch.
step_result result_of_step(step_outputs const& outputs, std::int64_t tokens,
                           function_ref<double(host_view const&, std::int64_t)> read);

/// A step that has been enqueued on a device. A trainer and a ticket share it.
class open_step {
public:
  /// `results`: copies of `norm_and_scale` and `loss` (one element each) and of `gradient_squares` (all elements).
  /// `tokens`: the number of valid labels in the batch.
  open_step(step_outputs const& outputs, std::int64_t tokens, std::shared_ptr<pending_results> results)
      : outputs_(outputs), results_(std::move(results)) {
    result_.tokens = tokens;
  }
  /// Waits for the step, if no earlier call did, and returns its result. Throws `error` if the device reports an error;
  /// a later call then waits again.
  step_result const& wait();
  /// Whether a call to `wait` has returned, so that the next call returns immediately. Before that, the result is
  /// false, even if the device has finished the step.
  bool is_complete() const { return results_ == nullptr; }

private:
  step_outputs outputs_;
  std::shared_ptr<pending_results> results_; // null: `result_` is complete
  step_result result_{};
};

/// The steps of a trainer that have been enqueued and whose results the trainer has not taken yet: at most two.
class open_steps {
public:
  /// The number of these steps.
  int size() const { return (steps_[0] != nullptr) + (steps_[1] != nullptr); }
  /// Whether the trainer must take the oldest step's result: there are more than `maximum_open` steps, or a ticket has
  /// already waited for the oldest.
  bool must_take_oldest(int maximum_open) const {
    return size() > maximum_open || (size() > 0 && oldest().is_complete());
  }
  /// The oldest of these steps. There must be one.
  open_step& oldest() const { return *steps_[0]; }
  /// Removes the oldest of these steps.
  void pop() { steps_[0] = std::exchange(steps_[1], nullptr); }
  /// Adds a step. Before the call, there must be at most one.
  void push(std::shared_ptr<open_step> step) { steps_[size()] = std::move(step); }

private:
  std::shared_ptr<open_step> steps_[2];
};

} // namespace detail

/// A handle to a step that `trainer::enqueue` has started: waits for the step and returns its result. A ticket can be
/// destroyed early: the trainer finishes the step without it. A ticket can be used after its trainer was moved or
/// destroyed. Tickets can be moved, but not copied.
class [[nodiscard]] step_ticket {
public:
  /// An empty ticket, without a step.
  step_ticket() = default;
  /// The ticket of a step that is complete.
  explicit step_ticket(step_result const& result) : result_(result), is_complete_(true) {}
  /// The ticket of a step that may still run.
  explicit step_ticket(std::shared_ptr<detail::open_step> step) : step_(std::move(step)) {}
  /// Takes over the step of `other`, which becomes empty.
  step_ticket(step_ticket&& other) noexcept
      : step_(std::move(other.step_)), result_(other.result_), is_complete_(std::exchange(other.is_complete_, false)) {}
  /// Gives up this ticket's step and takes over the step of `other`, which becomes empty.
  step_ticket& operator=(step_ticket&& other) noexcept;

  /// Waits until the step is complete, and returns its result; a second call returns the same result again. Throws
  /// `error` if the device reports an error, or if the ticket is empty or was moved from.
  step_result wait();

private:
  std::shared_ptr<detail::open_step> step_; // null: complete or empty
  step_result result_{};
  bool is_complete_ = false;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/step_ticket.ipp"
#endif
