#pragma once

#include "constrain/base/variant.hpp"

#include <memory>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class signature> class function_ref;

/// A function that is borrowed for a call, as C++26 has it: a parameter of this type makes no template of the function
/// that takes it, which is then compiled once.
template <class result, class... arguments> class function_ref<result(arguments...)> {
public:
  template <class function>
    requires(!std::is_same_v<std::remove_cvref_t<function>, function_ref>)
  function_ref(function&& f)
      : borrowed_(const_cast<void*>(static_cast<void const*>(std::addressof(f)))),
        call_([](void* borrowed, arguments... given) -> result {
          return static_cast<result>(
              (*static_cast<std::remove_reference_t<function>*>(borrowed))(std::forward<arguments>(given)...));
        }) {}

  result operator()(arguments... given) const { return call_(borrowed_, std::forward<arguments>(given)...); }

private:
  void* borrowed_;
  result (*call_)(void*, arguments...);
};

} // namespace constrain
