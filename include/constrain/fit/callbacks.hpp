#pragma once

#include "constrain/fit/context.hpp"

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The default callback of `fit`, which does nothing.
struct no_callback {
  void operator()(step_result const&) const {}
};

namespace detail {

/// The type-erased callbacks of `fit`. Each function is called as `f(object, context)`; null: no callback. `object`:
/// the caller's callback object, not owned.
struct fit_callbacks {
  using function = void (*)(void* object, fit_context&);
  void* object = nullptr;
  function start = nullptr, step = nullptr, evaluation = nullptr, save = nullptr, end = nullptr;
};

// clang-format off
/// Defines, for a callback named X:
/// - `names_X`: whether a class has a member X of any kind, even an overload set or a template. (In a class derived
///   from both the class and `has_X`, the name X is ambiguous if and only if the class has such a member. In a final
///   class, overloads and templates that cannot be called are not found.)
/// - `calls_X`: whether `o.X(context)` compiles and returns void.
/// - `call_X`: returns a function that calls `o.X(context)`, or null if `calls_X` is false.
#define CONSTRAIN_CALLBACK(name)                                                                                       \
  struct has_##name {                                                                                                  \
    int name;                                                                                                          \
  };                                                                                                                   \
  template <class object> struct object_and_##name : object, has_##name {};                                            \
  template <class object> constexpr bool calls_##name = requires(object& o, fit_context& c) {                          \
    { o.name(c) } -> std::same_as<void>;                                                                               \
  };                                                                                                                   \
  template <class object> constexpr bool names_##name() {                                                              \
    if constexpr (std::is_class_v<object> && !std::is_final_v<object>)                                                 \
      return !requires { &object_and_##name<std::remove_const_t<object>>::name; };                                     \
    else return requires { &object::name; } || calls_##name<object>;                                                   \
  }                                                                                                                    \
  template <class object> fit_callbacks::function call_##name() {                                                      \
    if constexpr (calls_##name<object>) return [](void* o, fit_context& c) { static_cast<object*>(o)->name(c); };      \
    else return nullptr;                                                                                               \
  }
// clang-format on
CONSTRAIN_CALLBACK(on_start)
CONSTRAIN_CALLBACK(on_step)
CONSTRAIN_CALLBACK(on_evaluation)
CONSTRAIN_CALLBACK(on_save)
CONSTRAIN_CALLBACK(on_end)
#undef CONSTRAIN_CALLBACK

/// Whether `function` can be called with an `argument`, and returns void or a type that converts to bool.
template <class function, class argument> constexpr bool is_step_callback() {
  if constexpr (std::is_invocable_v<function&, argument>) {
    using result = std::invoke_result_t<function&, argument>;
    return std::is_void_v<result> || std::is_convertible_v<result, bool>;
  } else return false;
}

/// The argument that a callback function takes after a step: a `step_result const&` (`result`) or a `fit_context&`
/// (`context`); `nothing`: the function accepts neither.
enum class after_step { nothing, result, context };
/// Determines the argument of a callback function. `fit_context&` is tried only if the function does not accept
/// `step_result const&`: trying both would instantiate a generic lambda for both argument types.
template <class function> constexpr after_step argument_after_step() {
  if constexpr (is_step_callback<function, step_result const&>()) return after_step::result;
  else if constexpr (is_step_callback<function, fit_context&>()) return after_step::context;
  else return after_step::nothing;
}

/// `std::invoke(f, a)` for a function, function object or pointer to member, without the compile time of <functional>.
template <class function, class argument> constexpr decltype(auto) call_with(function& f, argument& a) {
  if constexpr (std::is_member_object_pointer_v<function>) return (a.*f);
  else if constexpr (std::is_member_function_pointer_v<function>) return (a.*f)();
  else return f(a);
}

/// Calls the callback `object`, a `function`, after a step. Calls the object itself if it is callable, and stops the
/// run if the result is false. Then calls the object's `on_step`, if there is one.
template <class function> void call_after_step(void* object, fit_context& c) {
  auto& f = *static_cast<function*>(object);
  auto const call = [&](auto& argument) {
    if constexpr (std::is_void_v<decltype(call_with(f, argument))>) call_with(f, argument);
    else if (!call_with(f, argument)) c.stop();
  };
  constexpr auto argument = argument_after_step<function>();
  if constexpr (argument == after_step::result) call(std::as_const(c.last));
  if constexpr (argument == after_step::context) call(c);
  if constexpr (calls_on_step<function>) f.on_step(c);
}

/// The compile-time errors for an argument that `fit` cannot use as a callback.
template <class object> struct callback_is_usable {
  // `has_member`: the object has a member with a callback's name. `is_callable`: the object itself can be called after
  // a step.
  static constexpr bool has_member = names_on_start<object>() || names_on_step<object>() ||
                                     names_on_evaluation<object>() || names_on_save<object>() || names_on_end<object>();
  static constexpr bool is_callable = argument_after_step<object>() != after_step::nothing;

  static_assert(!names_on_start<object>() || calls_on_start<object>,
                "fit: a callback's on_start must be `void on_start(ct::fit_context& c)`");
  static_assert(
      !names_on_step<object>() || calls_on_step<object>,
      "fit: a callback's on_step must be `void on_step(ct::fit_context& c)`; c.last is the step's result, and c.stop() "
      "ends the run");
  static_assert(
      !names_on_evaluation<object>() || calls_on_evaluation<object>,
      "fit: a callback's on_evaluation must be `void on_evaluation(ct::fit_context& c)`; *c.validation is the "
      "evaluation");
  static_assert(!names_on_save<object>() || calls_on_save<object>,
                "fit: a callback's on_save must be `void on_save(ct::fit_context& c)`; c.saved is the directory");
  static_assert(!names_on_end<object>() || calls_on_end<object>,
                "fit: a callback's on_end must be `void on_end(ct::fit_context& c)`; c.result is what fit returns");
  static_assert(
      has_member || is_callable,
      "fit: the argument after the options is not a callback; pass a function [&](ct::step_result const& r) { ... }, "
      "which returns nothing or whether to continue, or an object with on_start, on_step, on_evaluation, on_save or "
      "on_end, each like `void on_step(ct::fit_context& c)`");
};

/// The callbacks of an object or function pointer. The result points to `callback`, which must outlive the result.
template <class type> fit_callbacks callbacks_of(type& callback) {
  [[maybe_unused]] callback_is_usable<type> const checked;
  using object_type = std::remove_const_t<type>;
  fit_callbacks callbacks;
  callbacks.object = const_cast<object_type*>(std::addressof(callback));
  if constexpr (std::is_same_v<object_type, no_callback>) return callbacks;
  callbacks.start = call_on_start<type>();
  callbacks.step = call_after_step<type>;
  callbacks.evaluation = call_on_evaluation<type>();
  callbacks.save = call_on_save<type>();
  callbacks.end = call_on_end<type>();
  return callbacks;
}

} // namespace detail

} // namespace constrain
