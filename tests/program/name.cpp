#include <constrain/program/name.hpp>
#include <doctest/doctest.h>

#include <string>

using namespace constrain;

namespace {

constexpr auto texts = [] {
  name_pool pool;
  auto const layer = pool.add("block", "mlp");
  auto const weight = pool.add(pool.text(layer), "weight");
  auto const alone = pool.add("", "head");
  return pool.text(layer) == "block.mlp" && pool.text(weight) == "block.mlp.weight" && pool.text(alone) == "head";
}();
static_assert(texts);

} // namespace

TEST_CASE("a full pool gives the empty name and keeps what is there") {
  name_pool pool;
  auto const first = pool.add("", "first");
  std::string const rest(static_cast<std::size_t>(name_pool::capacity) - 5, 'x');
  auto const second = pool.add("", rest);
  CHECK(second.length == name_pool::capacity - 5);
  CHECK(pool.add("", "y").length == 0);
  CHECK(pool.text(first) == "first");
  CHECK(pool.text(second) == rest);
  CHECK(pool.text({}).empty());
}
