#pragma once

#include "constrain/io/json_failure.hpp"
#include "constrain/io/json_tree.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

template <class item> class json_range;
struct json_member;

/// A value in a parsed JSON text: a handle that keeps the text alive. Except for `value`, an accessor for a different
/// kind of value throws `error` with the byte offset of the value (of a string: after its opening quote). Returned
/// views are valid while any `json` of this text exists.
class json {
public:
  /// Parses JSON text strictly (see `json_parser`). `source`: the path or name of the text in errors. Throws `error`
  /// for invalid JSON.
  static json parse(std::string_view text, std::string_view source = "the text") {
    return json(std::make_shared<json_tree const>(json_parser::parse(text, source)), 0);
  }

  /// The kind of the value.
  json_kind kind() const { return node().kind; }
  bool is_null() const { return kind() == json_kind::null; }

  /// The boolean. Throws `error` if the value is not a boolean.
  bool boolean() const { return require(json_kind::boolean, "a boolean").length == 4; } // the length of "true"
  /// The string in UTF-8, with escapes decoded. Throws `error` if the value is not a string.
  std::string_view string() const { return tree_->text_of(require(json_kind::string, "a string")); }
  /// The number as written in the text. Throws `error` if the value is not a number.
  std::string_view number() const { return tree_->text_of(require(json_kind::number, "a number")); }

  /// The number as an integer. Throws `error` unless the number is written without a decimal point or exponent and is
  /// in the range of the type.
  std::int64_t int64() const { return to_integer<std::int64_t>(); }
  std::uint64_t uint64() const { return to_integer<std::uint64_t>(); }

  /// The number rounded to float or double. The strings "nan", "inf" and "-inf", which `json_writer` writes, also count
  /// as numbers. Throws `error` for any other value, and for a number whose magnitude is too large for the type or,
  /// unless it is 0, too small.
  template <class real_type = double> real_type real() const {
    if (kind() == json_kind::string) {
      if (string() == "nan") return std::numeric_limits<real_type>::quiet_NaN();
      if (string() == "inf") return std::numeric_limits<real_type>::infinity();
      if (string() == "-inf") return -std::numeric_limits<real_type>::infinity();
    }
    return converted<real_type>(number(), sizeof(real_type) == sizeof(float) ? "a number in the range of float"
                                                                             : "a number in the range of double");
  }

  /// The number of elements of an array or members of an object. Throws `error` if the value is neither.
  std::size_t size() const;

  /// An array's elements, in order: `for (json element : value.elements())`. Throws `error` if the value is not an
  /// array.
  json_range<json> elements() const;
  /// An object's members, in the order of the text: `for (auto const& [name, element] : value.members())`. Throws
  /// `error` if the value is not an object.
  json_range<json_member> members() const;

  /// The value of an object's member `name`; nullopt if the object has none. Linear search. Throws `error` if this is
  /// not an object.
  std::optional<json> find(std::string_view name) const;
  /// The value of an object's member `name`; nullopt if this is not an object, or if the member is missing or null.
  std::optional<json> value(std::string_view name) const;

  /// The value of an object's member `name`. Throws `error` if the object has none, or if this is not an object.
  json operator[](std::string_view name) const;

  /// Throws `error`: "'<source>' has <the number, or the kind of value> at byte <position> where <needed> is needed;
  /// ...".
  [[noreturn]] void fail(std::string_view needed) const;

private:
  template <class item> friend class json_range;

  std::shared_ptr<json_tree const> tree_;
  std::uint32_t index_;

  json(std::shared_ptr<json_tree const> tree, std::uint32_t index) : tree_(std::move(tree)), index_(index) {}

  json_node const& node() const { return tree_->nodes[index_]; }

  /// The value's node. Throws `error` if the value is not of the kind `needed`; `needed_text`: that kind in the error.
  json_node const& require(json_kind needed, std::string_view needed_text) const;

  template <class integer> integer to_integer() const {
    constexpr bool is_signed = std::numeric_limits<integer>::is_signed;
    return converted<integer>(number(), is_signed ? "a 64-bit integer" : "an integer from 0 to 2^64 - 1");
  }

  template <class arithmetic> arithmetic converted(std::string_view digits, std::string_view needed) const {
    arithmetic result{};
    auto const [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (code != std::errc{} || end != digits.data() + digits.size()) fail(needed);
    return result;
  }
};

/// A member of an object.
struct json_member {
  std::string_view name; // escapes decoded
  json value;            // a handle to the member's value
};

/// The range of an array's elements or an object's members. Iterators are valid for the lifetime of the range.
template <class item> class json_range {
public:
  /// An input iterator.
  class iterator {
  public:
    using value_type = item;
    using difference_type = std::ptrdiff_t;

    item operator*() const {
      if constexpr (std::is_same_v<item, json>) return json(owner_->tree_, index_);
      else return {owner_->tree_->text_of(owner_->tree_->nodes[index_]), json(owner_->tree_, index_ + 1)};
    }
    iterator& operator++() {
      index_ = owner_->tree_->nodes[index_ + (std::is_same_v<item, json> ? 0 : 1)].next;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(iterator const& other) const { return index_ == other.index_; }

  private:
    friend json_range;
    json const* owner_;
    std::uint32_t index_;
    iterator(json const* owner, std::uint32_t index) : owner_(owner), index_(index) {}
  };

  /// For a range-based `for`.
  iterator begin() const { return {&owner_, owner_.index_ + 1}; }
  iterator end() const { return {&owner_, owner_.node().next}; }

private:
  friend json;
  json owner_;
  explicit json_range(json owner) : owner_(std::move(owner)) {}
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json.ipp"
#endif
