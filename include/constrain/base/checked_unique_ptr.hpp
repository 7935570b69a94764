#pragma once

#include "constrain/base/error.hpp"

#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A std::unique_ptr to a part of a trainer or inference object. If that object was moved from, dereferencing throws
/// `error`, and `get` returns null.
template <class type> class checked_unique_ptr : public std::unique_ptr<type> {
public:
  using std::unique_ptr<type>::unique_ptr;
  using std::unique_ptr<type>::operator=;
  /// Takes ownership of the part.
  checked_unique_ptr(std::unique_ptr<type> part) : std::unique_ptr<type>(std::move(part)) {}

  /// The part. Throws `error` if the object was moved from.
  type* operator->() const { return &**this; }
  type& operator*() const {
    if (this->get() == nullptr) refuse();
    return *this->get();
  }

private:
  [[noreturn, gnu::noinline, gnu::cold]] static void refuse() {
    throw error("this trainer or inference object was moved from; use the object that it was moved into");
  }
};

} // namespace constrain
