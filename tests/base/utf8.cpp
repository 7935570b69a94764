#include <constrain/base/utf8.hpp>
#include <doctest/doctest.h>

#include <string_view>

using constrain::find_invalid_utf8, constrain::is_utf8;

// The first wrong byte, or the size.
static_assert(is_utf8("") && is_utf8("exp_avg_sq") && is_utf8(std::string_view("\0", 1)));
static_assert(is_utf8("\xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\xa1"));
static_assert(find_invalid_utf8("mom\xe9") == 3 && find_invalid_utf8("\x80") == 0 && find_invalid_utf8("a\xff") == 1);
static_assert(find_invalid_utf8("ab\xe2\x82") == 2 && find_invalid_utf8("\xe2\x82z") == 0); // cut off

// Overlong forms, surrogates, and code points beyond U+10FFFF, next to their neighbors that are right.
static_assert(!is_utf8("\xc1\xbf") && is_utf8("\xc2\x80"));
static_assert(!is_utf8("\xe0\x9f\xbf") && is_utf8("\xe0\xa0\x80"));
static_assert(!is_utf8("\xed\xa0\x80") && is_utf8("\xed\x9f\xbf") && is_utf8("\xee\x80\x80"));
static_assert(!is_utf8("\xf0\x8f\xbf\xbf") && is_utf8("\xf0\x90\x80\x80"));
static_assert(!is_utf8("\xf4\x90\x80\x80") && is_utf8("\xf4\x8f\xbf\xbf") && !is_utf8("\xf5\x80\x80\x80"));

TEST_CASE("find_invalid_utf8 finds a wrong byte in every place of a long text") {
  char text[64];
  for (char& c : text) c = 'x';
  std::string_view const all(text, sizeof text);
  for (std::size_t i = 0; i < all.size(); ++i) {
    text[i] = '\x80';
    CHECK(find_invalid_utf8(all) == i);
    text[i] = 'x';
  }
  CHECK(is_utf8(all));
}
