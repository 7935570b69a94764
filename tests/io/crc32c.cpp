#include <constrain/io/crc32c.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

using constrain::io::crc32c;

TEST_CASE("crc32c: published values") {
  auto const of = [](std::string_view text) { return crc32c{}.update(std::as_bytes(std::span(text))).value(); };
  CHECK(of("") == 0);
  CHECK(of("123456789") == 0xe3069283);           // Williams' check value
  CHECK(of(std::string(32, '\0')) == 0x8a9136aa); // RFC 3720, B.4
  CHECK(of(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(of(rising) == 0x46dd794e);
  for (std::size_t cut = 0; cut <= rising.size(); ++cut) {
    auto const bytes = std::as_bytes(std::span(rising));
    CHECK(crc32c{}.update(bytes.first(cut)).update(bytes.subspan(cut)).value() == 0x46dd794e);
  }
}
