#pragma once

#include "constrain/io/json.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE std::size_t json::size() const {
  if (kind() != json_kind::array && kind() != json_kind::object) fail("an array or an object");
  return node().length;
}

[[gnu::cold]] CONSTRAIN_INLINE json json::operator[](std::string_view name) const {
  if (auto found = find(name)) return *found;
  throw detail::missing_json(tree_->where, node().first, name);
}

[[gnu::cold]] CONSTRAIN_INLINE void json::fail(std::string_view needed) const {
  auto const digits = kind() == json_kind::number ? tree_->text_of(node()) : std::string_view();
  throw detail::unsuitable_json(tree_->where, node().first, kind(), digits, needed);
}

[[gnu::cold]] CONSTRAIN_INLINE json_node const& json::require(json_kind needed, std::string_view needed_text) const {
  if (kind() != needed) fail(needed_text);
  return node();
}

[[gnu::cold]] CONSTRAIN_INLINE json_range<json> json::elements() const {
  require(json_kind::array, "an array");
  return json_range<json>(*this);
}

[[gnu::cold]] CONSTRAIN_INLINE json_range<json_member> json::members() const {
  require(json_kind::object, "an object");
  return json_range<json_member>(*this);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<json> json::find(std::string_view name) const {
  require(json_kind::object, "an object");
  for (auto i = index_ + 1; i != node().next; i = tree_->nodes[i + 1].next)
    if (tree_->text_of(tree_->nodes[i]) == name) return json(tree_, i + 1);
  return std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<json> json::value(std::string_view name) const {
  if (kind() != json_kind::object) return std::nullopt;
  auto const found = find(name);
  return found && !found->is_null() ? found : std::nullopt;
}

} // namespace constrain::io
