#pragma once

#include "constrain/base/error.hpp"
#include "constrain/data/chat.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/io/descriptor.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `json_lines`.
struct json_lines_options {
  std::string end = "\n";  ///< Appended to every text except chats; its tokens have loss. May be empty.
  std::int64_t length = 0; ///< Each text, with its `.end`, is cut or padded to this many tokens; 0: not changed.
  chat_format chat{};      ///< How the messages of a chat become a text.
};

namespace detail {

/// Concatenated texts, one token per byte, with their prompt mask.
struct joined_texts {
  std::string bytes{};
  std::vector<bool> prompt{};

  /// Appends `text`. `is_prompt`: whether its bytes are part of a prompt.
  void append(std::string_view text, bool is_prompt);
};

/// Collects the texts of JSON lines into a corpus. The options must outlive this object.
class json_line_texts {
public:
  /// `path` appears in errors. Throws `error` for a negative length.
  json_line_texts(std::string path, json_lines_options const& options);

  /// Adds the text of one line; skips a blank line. Throws `error`, with path and line number, for a malformed line.
  /// Also throws `error` if the texts, cut or padded to `.length`, exceed this machine's physical memory.
  void add(std::string_view line);

  /// The corpus. Throws `error` if there is no text, or if every text, with its `.end`, is empty and `.length` is 0.
  corpus finish() &&;

private:
  std::string path_;
  json_lines_options const& options_;
  joined_texts texts_{};
  std::int64_t line_number_ = 0;
};

/// Like `json_lines`, for lines in memory, without a byte-order mark. `path`: the name of the lines in errors.
corpus parse_json_lines(std::string_view lines, std::string const& path, json_lines_options const& options);

/// Calls `visit(line)` for each line of a file. `line` has no line feed and is valid during the call. Three spaces
/// replace a byte-order mark at the start of the file, so that byte offsets in the first line do not change. Throws
/// `error` if the file cannot be read. Exceptions of `visit` propagate. The file is read, not mapped: if another
/// process truncated a mapped file, this process would crash.
template <class visitor> void for_lines(std::string const& path, visitor const& visit) {
  auto const file = io::open_file(path, "the texts");
  std::string unfinished, block(std::size_t{1} << 18, '\0');
  bool is_first = true;
  auto const visit_finished = [&] {
    // RFC 8259 allows a reader of JSON to ignore the mark, which many editors and spreadsheets write.
    if (std::exchange(is_first, false) && unfinished.starts_with("\xef\xbb\xbf")) unfinished.replace(0, 3, 3, ' ');
    visit(std::string_view(unfinished));
  };
  for (;;) {
    auto const bytes_read = ::read(file.get(), block.data(), block.size());
    if (bytes_read < 0 && errno == EINTR) continue;
    if (bytes_read < 0)
      throw error({"the texts '", path, "' cannot be read (", io::reason(), "); check the file and its disk"});
    if (bytes_read == 0) break;
    std::string_view remaining(block.c_str(), static_cast<std::size_t>(bytes_read));
    for (auto end = remaining.find('\n'); end != std::string_view::npos; end = remaining.find('\n')) {
      unfinished += remaining.substr(0, end);
      visit_finished();
      unfinished.clear();
      remaining.remove_prefix(end + 1);
    }
    unfinished += remaining;
  }
  if (!unfinished.empty()) visit_finished();
}

} // namespace detail

/// A corpus from a JSON Lines file. Each line is an object that has a string in "text", or a prompt in "input" and its
/// answer in "output", or a chat in "messages" (an array of at least one object with a "content" and a "role": system,
/// developer, user, assistant or tool); if an object has several of these, the first in this order is used; null is the
/// same as a missing value. Each byte is a token. Prompts have no loss. In a chat, only the content of each assistant
/// message and the `chat_format::end` after it have loss. With `.length`, padding (byte 0) and the first token of each
/// text have no loss either, and `.length` is the corpus's `text_length`, so `split` cuts no text. If `.length` is the
/// task's sequence length, the last text of the corpus gives no sample, because its last label would be the first token
/// of a text after it (see `samples`). Blank lines are skipped, and so is a byte-order mark at the start of the file.
/// Throws `error`, with path and line number, for a malformed line. Also throws `error` if there is no text, if every
/// text, with its `.end`, is empty and `.length` is 0, if the file cannot be read, if `.length` is negative, or if the
/// texts, cut or padded to `.length`, exceed this machine's physical memory.
corpus json_lines(std::string const& path, json_lines_options const& options = {});

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/json_lines.ipp"
#endif
