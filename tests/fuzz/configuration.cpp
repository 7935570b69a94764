#include "fuzz.hpp"

#include "constrain/io/json.hpp"
#include "constrain/model/bert/hugging_face.hpp"
#include "constrain/model/gpt2/hugging_face.hpp"
#include "constrain/model/llama/hugging_face.hpp"

// A config.json: what models read of it is a JSON object again, or refused.
void constrain::test::try_reader(std::span<std::byte const> bytes) {
  auto const configuration = io::json::parse(text_of(bytes), "config.json");
  auto const try_model = [&](auto const& normalize) {
    std::string text;
    try {
      text = normalize(configuration);
    } catch (error const&) { return; }
    hold(io::json::parse(text, "standard").kind() == io::json_kind::object);
  };
  try_model(weight_format_of<bert>::normalize);
  try_model(weight_format_of<gpt2>::normalize);
  try_model(weight_format_of<llama>::normalize);
}
