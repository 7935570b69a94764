#pragma once

#include "constrain/data/json_lines.hpp"

#include "constrain/data/memory_check.hpp"
#include "constrain/io/json.hpp"

#include <algorithm>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

CONSTRAIN_INLINE void joined_texts::append(std::string_view text, bool is_prompt) {
  bytes += text;
  prompt.resize(bytes.size(), is_prompt);
}

CONSTRAIN_INLINE json_line_texts::json_line_texts(std::string path, json_lines_options const& options)
    : path_(std::move(path)), options_(options) {
  if (options.length < 0)
    throw error({"json_lines_options: .length is ", options.length,
                 "; give 0 to keep the length of each text, or a number of tokens of at least 1"});
}

CONSTRAIN_INLINE void json_line_texts::add(std::string_view line) {
  ++line_number_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  auto const location = concat({path_, ":", line_number_});
  auto const object = io::json::parse(line, location);
  joined_texts entry;
  bool is_chat = false;
  (void)object.members(); // throws unless the line is an object
  if (auto const text = object.value("text")) {
    entry.append(text->string(), false);
  } else if (auto const input = object.value("input"), output = object.value("output"); input && output) {
    entry.append(input->string(), true);
    entry.append(output->string(), false);
  } else if (auto const messages = object.value("messages")) {
    is_chat = true;
    append_chat(*messages, location, options_.chat,
                [&](std::string_view message_text, bool is_prompt) { entry.append(message_text, is_prompt); });
  } else {
    throw error({"'", location,
                 "' has neither 'text' nor both 'input' and 'output' nor 'messages'; add 'text', both 'input' and "
                 "'output', or 'messages'"});
  }
  if (!is_chat) entry.append(options_.end, false);
  if (options_.length > 0) {
    // The first check ensures that the sum in the second does not overflow.
    check_memory("a text padded to .length", options_.length, 1, "token", "give a smaller .length");
    check_memory("the corpus", static_cast<std::int64_t>(texts_.bytes.size()) + options_.length);
    auto const length = static_cast<std::size_t>(options_.length);
    entry.bytes.resize(length, '\0');
    entry.prompt.resize(length, true);
    entry.prompt[0] = true; // no loss: the first token would be predicted from the end of another text
  }
  texts_.bytes += entry.bytes;
  texts_.prompt.insert(texts_.prompt.end(), entry.prompt.begin(), entry.prompt.end());
}

CONSTRAIN_INLINE corpus json_line_texts::finish() && {
  if (texts_.bytes.empty())
    throw error({"the texts '", path_, "' are empty; give a file with at least one text that is not empty"});
  return corpus::from_bytes(std::move(texts_.bytes), std::move(texts_.prompt),
                            std::max<std::int64_t>(options_.length, 1));
}

CONSTRAIN_INLINE corpus parse_json_lines(std::string_view lines, std::string const& path,
                                         json_lines_options const& options) {
  json_line_texts texts(path, options);
  while (!lines.empty()) {
    auto const line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    texts.add(line);
  }
  return std::move(texts).finish();
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE corpus json_lines(std::string const& path, json_lines_options const& options) {
  detail::json_line_texts texts(path, options);
  detail::for_lines(path, [&](std::string_view line) { texts.add(line); });
  return std::move(texts).finish();
}

} // namespace constrain::data
