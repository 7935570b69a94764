#pragma once

#include "constrain/data/labelled_json_lines.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/data/json_lines.hpp"
#include "constrain/data/memory_check.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

[[gnu::cold]] CONSTRAIN_INLINE labelled_texts::labelled_texts(std::string path,
                                                              labelled_json_lines_options const& options)
    : path_(std::move(path)), options_(options),
      classes_(options.classes == 0 ? static_cast<std::int64_t>(options.class_names.size()) : options.classes) {
  check_count("labelled_json_lines_options", ".length", options.length, 1);
  if (constexpr std::int64_t maximum = std::numeric_limits<std::int32_t>::max(); options.length > maximum)
    constrain::detail::refuse_number("labelled_json_lines_options", ".length", concat({options.length}),
                                     concat({"at most ", maximum}));
  check_count("labelled_json_lines_options", ".classes", options.classes, 0);
  if (options.text == options.label)
    throw error({"labelled_json_lines_options: .text and .label are both '", options.text,
                 "'; name two different members of a line"});
  auto const name_count = static_cast<std::int64_t>(options.class_names.size());
  if (name_count > 0 && name_count != classes_)
    throw error({"labelled_json_lines_options: .classes is ", classes_, ", but .class_names has ",
                 counted(name_count, "name"), "; give one name per class, or leave .classes out"});
  for (std::size_t i = 0; i < options.class_names.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (options.class_names[k] == options.class_names[i])
        throw error({"labelled_json_lines_options: .class_names has '", options.class_names[i],
                     "' twice; give each class its own name"});
}

CONSTRAIN_INLINE std::int32_t labelled_texts::class_of(io::json const& label, std::string const& location) const {
  if (label.kind() == io::json_kind::string) {
    auto const& names = options_.class_names;
    auto const found = std::find(names.begin(), names.end(), label.string());
    if (found != names.end()) return static_cast<std::int32_t>(found - names.begin());
    if (names.empty())
      throw error({"'", location, "' has the label '", label.string(),
                   "', a name, but .class_names is empty; name the classes there, or give integers"});
    throw error({"'", location, "' has the label '", label.string(), "', which is not in .class_names (",
                 counted(names.size(), "name"), "); add it there, or correct the line"});
  }
  if (label.kind() != io::json_kind::number) label.fail("the class, an integer or a name,");
  auto const index = label.int64();
  std::int64_t const end = classes_ > 0 ? classes_ : std::numeric_limits<std::int32_t>::max();
  if (index < 0 || index >= end)
    throw error(
        {"'", location, "' has the label ", index, ", outside [0, ", end, "); give integers from 0 to ", end - 1});
  return static_cast<std::int32_t>(index);
}

CONSTRAIN_INLINE void labelled_texts::add(std::string_view line) {
  ++line_number_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  auto const location = concat({path_, ":", line_number_});
  auto const object = io::json::parse(line, location);
  auto const found_text = object.find(options_.text), found_label = object.find(options_.label);
  if (!found_text) throw error({"'", location, "' has no '", options_.text, "'; add the text as a string"});
  if (!found_label)
    throw error({"'", location, "' has no '", options_.label, "'; add the class as an integer or a name"});
  auto const text = found_text->string();
  auto const label = class_of(*found_label, location);
  check_memory("a text padded to .length", options_.length, sizeof(std::int32_t), "token", "give a smaller .length");
  auto const padded_length = static_cast<std::size_t>(options_.length);
  check_memory("the data", static_cast<std::int64_t>(arrays_->labels.size()) + 1,
               (options_.length + 2) * std::int64_t{sizeof(std::int32_t)}, "text");
  auto const cut_text = text.substr(0, padded_length);
  for (char const byte : cut_text) arrays_->tokens.push_back(static_cast<unsigned char>(byte));
  arrays_->tokens.resize(arrays_->tokens.size() + (padded_length - cut_text.size()));
  arrays_->lengths.push_back(static_cast<std::int32_t>(cut_text.size()));
  arrays_->labels.push_back(label);
}

[[gnu::cold]] CONSTRAIN_INLINE examples labelled_texts::finish() && {
  auto const& arrays = *arrays_;
  if (arrays.labels.empty()) throw error({"'", path_, "' has no labelled text; give a file with at least one"});
  return options_.lengths ? examples::from_storage(arrays_, {arrays.tokens, arrays.lengths}, arrays.labels)
                          : examples::from_storage(arrays_, arrays.tokens, arrays.labels);
}

[[gnu::cold]] CONSTRAIN_INLINE examples parse_labelled_json_lines(std::string_view lines, std::string const& path,
                                                                  labelled_json_lines_options const& options) {
  labelled_texts texts(path, options);
  while (!lines.empty()) {
    auto const line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    texts.add(line);
  }
  return std::move(texts).finish();
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE examples labelled_json_lines(std::string const& path,
                                                            labelled_json_lines_options const& options) {
  detail::labelled_texts texts(path, options);
  detail::for_lines(path, [&](std::string_view line) { texts.add(line); });
  return std::move(texts).finish();
}

} // namespace constrain::data
