#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/io/json.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// How a chat becomes text: each message is written as `begin`, its role, `after_role`, its content and `end`. Each of
/// the three texts may be empty. The default is ChatML.
struct chat_format {
  std::string begin = "<|im_start|>"; // text before the role
  std::string after_role = "\n";      // text between the role and the content
  std::string end = "<|im_end|>\n";   // text after the content
};

namespace detail {

/// Calls `append(text, is_prompt)` for consecutive parts of a chat's text; `text` is valid during the call. Only the
/// content of each assistant message and the `chat_format::end` after it have loss; all other parts are prompts.
/// `messages`: an array of objects with the strings "role" and "content". `location`: the path and line number in
/// errors. Throws `error` for malformed messages, if there is no message, or for a role other than system, developer,
/// user, assistant and tool.
void append_chat(io::json const& messages, std::string const& location, chat_format const& format,
                 function_ref<void(std::string_view, bool)> append);

} // namespace detail

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/chat.ipp"
#endif
