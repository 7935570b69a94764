#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/data/corpus.hpp"
#include "constrain/io/failure.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/mapped_file.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

struct json_lines_options {
  std::string end = "\n";  ///< After every text; it is learned with it.
  std::int64_t length = 0; ///< 0: texts are packed one after another. Else each has as many tokens: cut off or padded.
};

namespace detail {

/// Texts put together, each byte a token, with what of them is given.
struct joined_texts {
  std::string bytes{};
  std::vector<bool> given{};

  void append(std::string_view text, bool is_given) {
    bytes += text;
    given.resize(bytes.size(), is_given);
  }
};

/// The texts of lines; `path` stands in every error.
inline corpus parse_json_lines(std::string_view lines, std::string const& path, json_lines_options const& options) {
  if (options.length < 0)
    throw io::failure({"a text of ", options.length, " tokens was asked for; use 0 to pack texts, or a length"});
  joined_texts all;
  std::int64_t number = 0;
  for (auto rest = lines; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto const where = path + ":" + std::to_string(number);
    auto const object = io::json::parse(line, where);
    joined_texts one;
    if (auto const text = object.find("text")) {
      one.append(text->string(), false);
    } else if (auto const input = object.find("input"), output = object.find("output"); input && output) {
      one.append(input->string(), true);
      one.append(output->string(), false);
    } else {
      throw io::failure({"'", where, "' has no 'text' and not both 'input' and 'output'; give it one or the other"});
    }
    one.append(options.end, false);
    if (options.length > 0) {
      auto const length = static_cast<std::size_t>(options.length);
      one.bytes.resize(length, '\0');
      one.given.resize(length, true);
      one.given[0] = true; // nothing before it belongs to it
    }
    all.bytes += one.bytes;
    all.given.insert(all.given.end(), one.given.begin(), one.given.end());
  }
  if (all.bytes.empty()) throw io::failure({"the texts '", path, "' are none; give a file that holds some"});
  return corpus::from_bytes(std::move(all.bytes), std::move(all.given));
}

} // namespace detail

/// A file of a JSON object a line, each byte of its text a token: of `text`, or of `input` and then `output`, of which
/// the input is given and nothing is learned from predicting it. Empty lines are left out. Throws `error`, naming the
/// line.
inline corpus json_lines(std::string const& path, json_lines_options const& options = {}) {
  io::mapped_file const file(path, "the texts");
  return detail::parse_json_lines(file.text(), path, options);
}

} // namespace constrain::data
