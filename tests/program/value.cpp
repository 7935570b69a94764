#include <constrain/program/value.hpp>
#include <doctest/doctest.h>

#include <string>

using namespace constrain;

namespace {

/// A program with one value, and room for `room` more characters of names.
struct started {
  explicit started(int room) {
    owner.program.names.add("", std::string(static_cast<std::size_t>(name_pool::capacity - room), 'x'));
    x = {owner, {owner.new_value({dtype::f32, shape(2)}, role::activation, 0), at::current}};
  }
  builder owner;
  value x;
};
constexpr diagnosis no_room{why::program_too_large, 3, 0, name_pool::capacity, name_pool::capacity + 1};

} // namespace

TEST_CASE("a scope whose name has no room in the program is refused") {
  started s(5);
  { scope const inside(s.owner, "block", 3); }
  CHECK(s.owner.program.failure.ok());
  { scope const inside(s.owner, "mlp", 3); }
  CHECK(s.owner.program.failure == no_room);
}

TEST_CASE("a parameter has a name, of its own or of its scope") {
  started s(100);
  {
    scope const inside(s.owner, "block", 3);
    auto const of_scope = parameter(s.x, "", shape(2), role::weight);
    CHECK(s.owner.program.text(of_scope.info().name) == "block");
    auto const own = parameter(s.x, "weight", shape(2), role::weight);
    CHECK(s.owner.program.text(own.info().name) == "block.weight");
  }
  CHECK(s.owner.program.failure.ok());
  parameter(s.x, "", shape(2), role::weight, {}, 7);
  CHECK(s.owner.program.failure == diagnosis_with<refusals::parameter_without_a_name>(7));
}

TEST_CASE("a name that is not UTF-8 is refused: of a scope and of a parameter") {
  auto const not_utf8 = [](int line, int called_from, int byte) {
    return diagnosis_with<refusals::name_is_not_utf8>(line, called_from, 0, byte);
  };
  started s(100);
  parameter(s.x, "\xc3\xa9l\xe9ment", shape(2), role::weight, {}, 7);
  CHECK(s.owner.program.failure == not_utf8(7, 0, 3));
  started inside(100);
  {
    scope const block(inside.owner, "block", 3);
    scope const layer(inside.owner, "\xe9", 4);
  }
  CHECK(inside.owner.program.failure == not_utf8(4, 3, 0));
  started right(100);
  { scope const block(right.owner, "\xc3\xa9", 3); }
  CHECK(right.owner.program.failure.ok());
}

TEST_CASE("a parameter whose name has no room in the program is refused") {
  started s(5);
  parameter(s.x, "weight", shape(2), role::weight, {}, 3);
  CHECK(s.owner.program.failure == no_room);
}
