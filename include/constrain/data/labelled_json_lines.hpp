#pragma once

#include "constrain/base/error.hpp"
#include "constrain/data/examples.hpp"
#include "constrain/io/json.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `labelled_json_lines`.
struct labelled_json_lines_options {
  /// Each text is cut or padded to this many tokens, from 1 to 2147483647: the task's sequence length.
  std::int64_t length = 0;
  std::vector<std::string> class_names{}; ///< Names of the classes, in order; empty: labels must be integers.
  std::int32_t classes = 0;    ///< Number of classes, at least 0; 0: the number of names, or no limit without names.
  bool lengths = true;         ///< Whether a second input has each text's number of tokens, counted after the cut.
  std::string text = "text";   ///< Name of the member that holds the text.
  std::string label = "label"; ///< Name of the member that holds the label; must differ from `.text`.
};

namespace detail {

/// The arrays of labelled texts.
struct labelled_arrays {
  std::vector<std::int32_t> tokens{};  ///< [texts, length]; 0 after the end of a text.
  std::vector<std::int32_t> lengths{}; ///< [texts]
  std::vector<std::int32_t> labels{};  ///< [texts]
};

/// Collects labelled texts from JSON lines into examples. The options must outlive this object.
class labelled_texts {
public:
  /// `path` appears in errors. Throws `error` for an option out of range, if `.text` and `.label` are equal, if a class
  /// name occurs twice, or if `.class_names` and `.classes` are both given and their numbers of classes differ.
  labelled_texts(std::string path, labelled_json_lines_options const& options);

  /// Adds one line; skips a blank line. Throws `error`, with path and line number, for a malformed line. Also throws
  /// `error` if the texts, cut or padded, exceed this machine's physical memory.
  void add(std::string_view line);

  /// The examples. Throws `error` if there is no text.
  examples finish() &&;

private:
  std::string path_;
  labelled_json_lines_options const& options_;
  std::int64_t classes_; ///< 0: no limit.
  std::shared_ptr<labelled_arrays> arrays_ = std::make_shared<labelled_arrays>();
  std::int64_t line_number_ = 0;

  /// The class index of a label. `location`: path and line number, for errors. Throws `error` for an unknown name, a
  /// class out of range, or a value that is neither an integer nor a string.
  std::int32_t class_of(io::json const& label, std::string const& location) const;
};

/// Like `labelled_json_lines`, for lines in memory, without a byte-order mark. `path`: the name of the lines in errors.
examples parse_labelled_json_lines(std::string_view lines, std::string const& path,
                                   labelled_json_lines_options const& options);

} // namespace detail

/// Texts and their classes from a JSON Lines file, as examples for a model with the inputs tokens [sequences, tokens]
/// and lengths [sequences] (without `.lengths`, only tokens) and for `ct::classification`. Each line is an object like
/// {"text": "a fine film", "label": 1}. Each byte of a text is a token; the vocabulary size is 256. A text is cut to
/// `.length` tokens, or padded with token 0. A label is a class from 0 on or, with `.class_names`, the name of a class.
/// Blank lines, a byte-order mark at the start of the file and other members of an object are skipped. Throws `error`,
/// with path and line number, for a malformed line, a missing member, an unknown name and a class out of range. Also
/// throws `error` if there is no text, if the file cannot be read, for an option out of range, for equal names in
/// `.text` and `.label`, for a class name that occurs twice, if `.class_names` and `.classes` are both given and their
/// numbers of classes differ, or if the examples exceed this machine's physical memory.
examples labelled_json_lines(std::string const& path, labelled_json_lines_options const& options);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/labelled_json_lines.ipp"
#endif
