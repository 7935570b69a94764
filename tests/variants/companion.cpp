#include "temporary_directory.hpp"
#include "variants/training.hpp"

#include <doctest/doctest.h>

#include <cmath>

trained train_compiled(char const* resume, char const* save);
trained train_compiled_native(char const* resume, char const* save);
std::int32_t last_tokens_compiled_debug();

TEST_CASE("a unit that uses the companion library gives the same bits as a header-only one of its flags") {
  auto const plain = train(), compiled = train_compiled(nullptr, nullptr);
  CHECK(compiled.variant == plain.variant + "_compiled");
  CHECK(compiled.instruction_set == plain.instruction_set);
  CHECK(compiled.losses == plain.losses);
  CHECK(compiled.function != plain.function);
}

TEST_CASE("a unit with other flags than the companion's stays header-only") {
  auto const plain = train(), native = train_compiled_native(nullptr, nullptr);
  CHECK(native.variant.find("_compiled") == std::string::npos);
  for (std::size_t i = 0; i < plain.losses.size(); ++i)
    CHECK(std::abs(plain.losses[i] - native.losses[i]) <= 1e-5 * plain.losses[i]);
}

TEST_CASE("a unit in libstdc++'s debug mode stays header-only") {
  auto const parts = constrain::data::corpus::from_bytes("abcdefgh").split(0.5, 1, 1);
  CHECK(last_tokens_compiled_debug() == parts.train.token(3) + parts.validation.token(3));
}

TEST_CASE("units of both kinds and of two instruction sets resume one another's runs") {
  constrain::test::temporary_directory const directory;
  auto const saved = directory / "run", again = directory / "again";
  train(nullptr, saved.c_str());
  auto const plain = train(saved.c_str()), compiled = train_compiled(saved.c_str(), again.c_str());
  CHECK(compiled.losses == plain.losses);
  auto const native = train_compiled_native(again.c_str(), nullptr), next = train(again.c_str());
  CHECK(next.losses[0] < plain.losses[0]);
  for (std::size_t i = 0; i < next.losses.size(); ++i)
    CHECK(std::abs(next.losses[i] - native.losses[i]) <= 1e-5 * next.losses[i]);
}
