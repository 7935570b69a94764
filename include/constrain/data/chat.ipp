#pragma once

#include "constrain/data/chat.hpp"

#include "constrain/base/error.hpp"

#include <algorithm>
#include <array>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

CONSTRAIN_INLINE void append_chat(io::json const& messages, std::string const& location, chat_format const& format,
                                  function_ref<void(std::string_view, bool)> append) {
  constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
  bool has_message = false;
  for (auto const& message : messages.elements()) {
    has_message = true;
    auto const role = message["role"].string(), content = message["content"].string();
    if (std::find(roles.begin(), roles.end(), role) == roles.end())
      throw error({"'", location, "' has a message with the role '", role,
                   "'; give one of system, developer, user, assistant and tool"});
    bool const is_prompt = role != "assistant";
    for (std::string_view const text : {std::string_view(format.begin), role, std::string_view(format.after_role)})
      append(text, true);
    append(content, is_prompt), append(format.end, is_prompt);
  }
  if (!has_message) throw error({"'", location, "' has no message in 'messages'; give at least one"});
}

} // namespace constrain::data::detail
