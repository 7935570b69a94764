#include <constrain/program/op_label.hpp>
#include <doctest/doctest.h>

namespace ct = constrain;

// In the global namespace, as short as possible: the names that compilers print begin with no more than these.
struct mul {};
struct sub {};

TEST_CASE("ops that differ only in the first characters of their names have different identities") {
  CHECK(ct::detail::identity_of<mul>() != ct::detail::identity_of<sub>());
}
