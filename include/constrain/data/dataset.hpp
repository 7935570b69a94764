#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/data/examples.hpp"

#include <cstddef>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Whether a type is `corpus` or derives from it.
template <class type> inline constexpr bool is_corpus = std::is_convertible_v<type const*, corpus const*>;

/// Data that `trainer::batches`, `evaluate`, `fit`, `compare` and `steps_of_epochs` accept: a `corpus`, or `examples`.
template <class type> concept is_dataset = is_corpus<type> || std::is_convertible_v<type const*, examples const*>;

/// The name of a data set type in error messages, with its article if it needs one.
template <is_dataset type> inline constexpr char const* kind_of = is_corpus<type> ? "a corpus" : "examples";

/// A pointer to a corpus or to examples, or null. The caller keeps the corpus or the examples alive.
class dataset_pointer {
public:
  /// Null.
  constexpr dataset_pointer(std::nullptr_t = nullptr) {}
  /// A pointer to a corpus, or null.
  constexpr dataset_pointer(corpus const* c) : corpus_(c) {}
  /// A pointer to examples, or null.
  constexpr dataset_pointer(examples const* e) : examples_(e) {}

  /// The pointer to a corpus if `is_corpus<dataset>`, otherwise the pointer to examples. Null if this object points to
  /// the other kind or is null.
  template <is_dataset dataset> constexpr auto const* to() const {
    if constexpr (is_corpus<dataset>) return corpus_;
    else return examples_;
  }
  /// Whether two pointers point to the same object, or both are null.
  friend constexpr bool operator==(dataset_pointer const&, dataset_pointer const&) = default;

private:
  corpus const* corpus_ = nullptr;
  examples const* examples_ = nullptr;
};

} // namespace constrain::data
