#pragma once

#include "constrain/base/variant.hpp"

#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class signature> class function_ref;

/// A reference to a callable object, like C++26's std::function_ref. A function with a function_ref parameter need not
/// be a template, so it is compiled once. The reference must not outlive the object.
template <class result, class... arguments> class function_ref<result(arguments...)> {
public:
  /// Refers to `f`, an object. To refer to a function, pass a lambda that calls it.
  template <class function>
    requires(!std::is_same_v<std::remove_cvref_t<function>, function_ref>)
  function_ref(function&& f)
      : borrowed_(const_cast<void*>(static_cast<void const*>(__builtin_addressof(f)))),
        call_([](void* borrowed, arguments... values) -> result {
          return static_cast<result>(
              (*static_cast<std::remove_reference_t<function>*>(borrowed))(std::forward<arguments>(values)...));
        }) {}

  /// Calls the object with the arguments and returns the result.
  result operator()(arguments... values) const { return call_(borrowed_, std::forward<arguments>(values)...); }

private:
  void* borrowed_;
  result (*call_)(void*, arguments...);
};

} // namespace constrain
