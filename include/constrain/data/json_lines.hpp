#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/data/room.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/json.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `json_lines`.
struct json_lines_options {
  std::string end = "\n";  ///< Appended to every text; its tokens are labels.
  std::int64_t length = 0; ///< Tokens per text, cut or padded (no loss on padding); 0: texts are packed.
};

namespace detail {

/// Concatenated texts, one token per byte, with their prompt mask.
struct joined_texts {
  std::string bytes{};
  std::vector<bool> prompt{};

  void append(std::string_view text, bool is_prompt) {
    bytes += text;
    prompt.resize(bytes.size(), is_prompt);
  }
};

/// Collects the texts of JSON lines into a corpus.
class json_line_texts {
public:
  /// `path` is named in errors. Throws `error` for a negative length.
  json_line_texts(std::string path, json_lines_options const& options) : path_(std::move(path)), options_(options) {
    if (options.length < 0)
      throw error({"a text of ", options.length, " tokens was asked for; use 0 to pack texts, or a length"});
  }

  /// Adds one line; blank lines are skipped. Throws `error` naming path and line.
  void add(std::string_view line) {
    ++number_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    auto const where = concat({path_, ":", number_});
    auto const object = io::json::parse(line, where);
    joined_texts one;
    if (auto const text = object.find("text")) {
      one.append(text->string(), false);
    } else if (auto const input = object.find("input"), output = object.find("output"); input && output) {
      one.append(input->string(), true);
      one.append(output->string(), false);
    } else {
      throw error({"'", where, "' has no 'text' and not both 'input' and 'output'; give it one or the other"});
    }
    one.append(options_.end, false);
    if (options_.length > 0) {
      check_room("a text", options_.length);
      check_room("a corpus", static_cast<std::int64_t>(all_.bytes.size()) + options_.length);
      auto const length = static_cast<std::size_t>(options_.length);
      one.bytes.resize(length, '\0');
      one.prompt.resize(length, true);
      one.prompt[0] = true; // no loss: it would be predicted from the end of another text
    }
    all_.bytes += one.bytes;
    all_.prompt.insert(all_.prompt.end(), one.prompt.begin(), one.prompt.end());
  }

  /// The corpus. Throws `error` if there was no text.
  corpus finish() && {
    if (all_.bytes.empty()) throw error({"the texts '", path_, "' are none; give a file that holds some"});
    return corpus::from_bytes(std::move(all_.bytes), std::move(all_.prompt));
  }

private:
  std::string path_;
  json_lines_options const& options_;
  joined_texts all_{};
  std::int64_t number_ = 0;
};

/// `json_lines` for text in memory; `path` is named in errors.
inline corpus parse_json_lines(std::string_view lines, std::string const& path, json_lines_options const& options) {
  json_line_texts texts(path, options);
  while (!lines.empty()) {
    auto const line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    texts.add(line);
  }
  return std::move(texts).finish();
}

/// Calls `visit(line)` for each line of a file. It is read, not mapped, so that truncation by another process does not
/// crash this one.
template <class visitor> void for_lines(std::string const& path, visitor const& visit) {
  auto const file = io::open_file(path, "the texts");
  std::string unfinished, block(std::size_t{1} << 18, '\0');
  for (;;) {
    auto const got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw error({"the texts '", path, "' cannot be read (", io::reason(), "); check the file and its disk"});
    if (got == 0) break;
    std::string_view rest(block.data(), static_cast<std::size_t>(got));
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      unfinished += rest.substr(0, end);
      visit(std::string_view(unfinished));
      unfinished.clear();
      rest.remove_prefix(end + 1);
    }
    unfinished += rest;
  }
  if (!unfinished.empty()) visit(std::string_view(unfinished));
}

} // namespace detail

/// A corpus from a JSON Lines file: an object per line, with the text in "text", or a prompt in "input" and its answer
/// in "output". Each byte is a token; prompt tokens have no loss. Blank lines are skipped. Throws `error`, naming the
/// line.
inline corpus json_lines(std::string const& path, json_lines_options const& options = {}) {
  detail::json_line_texts texts(path, options);
  detail::for_lines(path, [&](std::string_view line) { texts.add(line); });
  return std::move(texts).finish();
}

} // namespace constrain::data
