#pragma once

#include <constrain/base/label.hpp>
#include <constrain/data/corpus.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace constrain::test {

/// The tokens of a corpus of bytes, as text.
inline std::string text_of(data::corpus const& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  return {tokens.begin(), tokens.end()};
}

/// The labels as text, '_' where one is ignored.
inline std::string labels_of(data::corpus const& corpus) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(corpus.size()));
  corpus.copy_labels(0, labels);
  std::string text;
  for (auto label : labels) text += label == ignored_label ? '_' : static_cast<char>(label);
  return text;
}

} // namespace constrain::test
