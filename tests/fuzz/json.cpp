#include "fuzz.hpp"

#include "constrain/io/json.hpp"
#include "constrain/io/utf8.hpp"

namespace {

/// Visits all of a value, as its readers do.
void visit(constrain::io::json const& value) {
  using constrain::io::json_kind;
  switch (value.kind()) {
  case json_kind::boolean: value.boolean(); break;
  case json_kind::string:
    constrain::test::hold(constrain::io::find_invalid_utf8(value.string()) == value.string().size());
    break;
  case json_kind::array:
    for (auto const& element : value.elements()) visit(element);
    break;
  case json_kind::object:
    for (auto const& [name, element] : value.members())
      constrain::test::hold(value.find(name).has_value()), visit(element);
    break;
  default: break;
  }
}

} // namespace

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  visit(io::json::parse(text_of(bytes), "the text"));
}
