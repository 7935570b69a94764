#include "fuzz.hpp"

#include "constrain/data/json_lines.hpp"

#include <vector>

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  for (std::int64_t const length : {0, 3}) {
    auto const corpus = data::detail::parse_json_lines(text_of(bytes), "texts.jsonl", {.length = length});
    hold(corpus.size() > 0 && (length == 0 || corpus.size() % length == 0));
    std::vector<std::int32_t> labels(static_cast<std::size_t>(corpus.size()));
    corpus.copy_labels(0, labels);
    for (auto label : labels) hold(label == ignored_label || (label >= 0 && label < 256));
  }
}
