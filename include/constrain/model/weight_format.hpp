#pragma once

#include "constrain/base/variant.hpp"

#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How a parameter stands in files that others read too.
struct stored_name {
  std::string_view name;   // here, as "block.mlp.up.weight"
  std::string_view stored; // there; where it has a '*', every iteration is a tensor of its own, and this its number
  bool transposed = false; // a matrix is [in, out] there
};

/// What a list of parameters is in a file: under these names, and under its own, iterations stacked, where there are
/// none.
using stored_names = std::span<stored_name const>;

/// Names of the two files, those of Hugging Face.
inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* configuration_file = "config.json";

/// A model's weights in files, so that others read them and theirs are read here.
struct weight_format {
  stored_names names{};                     // ours and theirs, of those that differ
  std::string configuration{};              // the text of config.json; none is written where it is empty
  std::string_view prefix{};                // of the stored names, which files may leave out
  std::span<std::string_view const> also{}; // ends of names of tensors that files may have and nobody needs
  std::span<std::string_view const>
      required{}; // what a config.json must say; what else it leaves out is as the model has it
};

/// The format of a model's weights; specialise it for a model of one's own. By default every parameter is a tensor of
/// its own name, and iterations are stacked.
template <class model> struct weight_format_of {
  /// `names` and `configuration` of a model with these fields.
  static weight_format make(model const&) { return {}; }
};

} // namespace constrain
