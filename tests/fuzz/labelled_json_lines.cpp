#include "fuzz.hpp"

#include "constrain/data/labelled_json_lines.hpp"

void constrain::test::try_reader(std::span<std::byte const> bytes) {
  for (bool const names : {false, true}) try {
      data::labelled_json_lines_options options{.length = 3, .classes = 2};
      if (names) options.class_names = {"a", "b"};
      auto const found = data::detail::parse_labelled_json_lines(text_of(bytes), "texts.jsonl", options);
      auto const tokens = found.inputs()[0].integers(), lengths = found.inputs()[1].integers();
      auto const labels = found.labels()[0].integers();
      hold(!labels.empty() && lengths.size() == labels.size() && tokens.size() == 3 * labels.size());
      for (std::size_t i = 0; i < labels.size(); ++i) {
        hold(labels[i] >= 0 && labels[i] < 2 && lengths[i] >= 0 && lengths[i] <= 3);
        for (std::size_t k = 0; k < 3; ++k) {
          auto const token = tokens[3 * i + k];
          hold(token >= 0 && token < 256 && (token == 0 || static_cast<std::int32_t>(k) < lengths[i]));
        }
      }
    } catch (error const& e) {
      std::string_view const said = e.what();
      hold(!said.empty() && said.find('\n') == said.npos);
    }
}
