#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

// A pointer to a data set knows its kind.

namespace ct = constrain;
using ct::data::corpus, ct::data::examples;

TEST_CASE("a pointer leads to a corpus, to examples or to nothing") {
  std::vector<std::int32_t> const x{1, 2}, y{0, 1};
  examples const pairs(x, y);
  auto const text = corpus::from_bytes("abc");
  ct::data::dataset_pointer const nothing, to_text = &text, to_pairs = &pairs;
  CHECK(nothing == nullptr);
  CHECK((to_text != nullptr && to_pairs != nullptr && to_text != to_pairs));
  CHECK(to_text.to<corpus>() == &text);
  CHECK(to_text.to<examples>() == nullptr);
  CHECK(to_pairs.to<examples>() == &pairs);
  CHECK(to_pairs.to<corpus>() == nullptr);
  static_assert(ct::data::is_corpus<corpus> && !ct::data::is_corpus<examples>);
  CHECK(std::string(ct::data::kind_of<examples>) == "examples");
}
