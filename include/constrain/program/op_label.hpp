#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The fields of an op's `op_info` that a plan keeps at run time.
struct op_label {
  char const* name = "";      // of the op, for messages and printed programs
  std::uint64_t identity = 0; // hash of the name of the op's type; ops are compared by this hash
};

namespace detail {

/// 64-bit FNV-1a hash of the signature of this function, which contains the type's name. With every compiler, the first
/// 40 characters come before the type's name; leaving them out saves compile time.
template <class op> constexpr std::uint64_t identity_of() {
  std::uint64_t hash = 14695981039346656037u;
  for (char const* c = __PRETTY_FUNCTION__ + 40; *c != 0; ++c)
    hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211u;
  return hash;
}

template <class op> inline constexpr op_label label_of{op::name, identity_of<op>()};

} // namespace detail

// `op_type` maps a plan's `op_label const*` back to the op's type, which the executor needs to launch the op's kernel.
// Instantiating `registered<op>` defines the friend `op_named(op_key<&label_of<op>>)`, so that no central list of ops
// is needed (friend injection). `info_of<op>` instantiates `registered<op>`, so every op that a program can call is
// registered. The friend is a non-template function on purpose; the pragmas silence the compiler warnings about it.
#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1301
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
namespace detail {
template <op_label const* label> struct op_key { friend constexpr auto op_named(op_key); };
template <class op> struct registered {
  friend constexpr auto op_named(op_key<&label_of<op>>) { return std::type_identity<op>{}; }
};
} // namespace detail
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

/// The op type that a label belongs to.
template <op_label const* label> using op_type = typename decltype(op_named(detail::op_key<label>{}))::type;

} // namespace constrain
