#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"

#include <concepts>
#include <memory>
#include <type_traits>
#include <vector>

/// Learning-rate schedules. A schedule is a pure function from the number of optimizer steps already done (0 for the
/// first step; skipped steps count) to a learning-rate factor. schedules.hpp has the library's schedules.
namespace constrain::inline CONSTRAIN_VARIANT::schedule {

/// The requirements for a schedule: it is copyable, and a call with `optimizer_steps` returns the factor.
///
///     struct halved_every {
///       ct::optimizer_steps period = 1000;
///       double operator()(ct::optimizer_steps step) const { return std::pow(0.5, step.count() / period.count()); }
///     };
template <class type>
concept is_schedule = std::copy_constructible<type> && std::is_invocable_r_v<double, type const&, optimizer_steps>;

/// A function type; a pointer to such a function is a schedule.
template <class type> concept is_schedule_function = std::is_function_v<type> && is_schedule<type*>;

/// A field of one of the library's schedules: its name, value and range. The trainer's constructor checks that every
/// value is in range and equal on all ranks.
struct field {
  char const* name;                             // with a leading dot
  double value;                                 // for an integer field, `count` as a double, which may be inexact
  number_range range = number_range::from_zero; // used if `least` is negative
  std::int64_t least = -1;                      // smallest value of an integer field; negative: not an integer field
  std::int64_t count = 0;                       // value of an integer field
};

/// A field that is a number of steps, at least `least`.
inline field steps_field(char const* name, optimizer_steps value, std::int64_t least) {
  return {name, static_cast<double>(value.count()), number_range::from_zero, least, value.count()};
}

/// Any schedule; the type of `run_options::schedule`.
class any {
public:
  /// A constant schedule: the full learning rate in every step.
  any() = default;
  /// A copy of a schedule of the library, or of a user's own function. An empty function (null) is accepted here, but
  /// refused by `check`.
  template <class chosen>
    requires(!std::same_as<chosen, any>)
  &&is_schedule<chosen> any(chosen const& s)
      : function_(std::make_shared<chosen const>(s)),
  call_([](void const* f, optimizer_steps step) -> double { return (*static_cast<chosen const*>(f))(step); }) {
    if constexpr (requires { s == nullptr; })
      if (s == nullptr) call_ = nullptr;
    if constexpr (requires { s.fields(); }) {
      name_ = chosen::name;
      fields_ = s.fields();
      if constexpr (requires { s.conflict(); })
        conflict_ = [](void const* f) -> char const* { return static_cast<chosen const*>(f)->conflict(); };
    } else {
      name_ = "own function";
      fields_.clear();
    }
  }

  /// The schedule of a plain function, given by its name instead of by a pointer.
  template <is_schedule_function function> any(function& f) : any(&f) {}

  /// The learning-rate factor at `step`. Throws `error` if the function is empty, or if the factor is negative or not
  /// finite.
  double operator()(optimizer_steps step) const;

  /// The name of a schedule of the library, such as "cosine"; "own function" for a user's own function.
  char const* name() const { return name_; }
  /// The fields; none for a user's own function.
  std::vector<field> const& fields() const { return fields_; }
  /// Throws `error` for a field out of range, for fields that contradict each other, for an empty function, and for a
  /// factor of the first step that is negative or not finite.
  void check() const;

private:
  std::shared_ptr<void const> function_; // copies share the pure function
  double (*call_)(void const*, optimizer_steps) = [](void const*, optimizer_steps) { return 1.0; }; // null: empty
  char const* name_ = "constant";
  std::vector<field> fields_{steps_field(".warmup", 0, 0)};
  // Calls the schedule's `conflict`; `check` uses it only if all fields are in range. Null: there is no `conflict`.
  char const* (*conflict_)(void const*) = nullptr;
};

/// The schedule's learning-rate factor at `step`. Throws as the call operator of `s` does.
inline double factor(any const& s, optimizer_steps step) { return s(step); }

} // namespace constrain::schedule

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/schedule.ipp"
#endif
