#pragma once

#include "constrain/base/variant.hpp"

#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The name of a parameter in files that other programs read and write.
struct stored_name {
  std::string_view name;   // in this library, such as "block.mlp.up.weight"
  std::string_view stored; // in files; a '*' stands for the iteration, and each iteration is a tensor
  bool transposed = false; // a matrix is [in, out] in files
};

/// Names of parameters in files. A parameter that is not listed has its own name there, its iterations stacked.
using stored_names = std::span<stored_name const>;

/// The files of a model in a folder.
inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* configuration_file = "config.json";

/// How a model's weights are stored, so that other programs can read them and their files can be read here.
struct weight_format {
  stored_names names{};                         // of parameters whose names differ
  std::string configuration{};                  // the text of config.json; empty: none is written
  std::string_view prefix{};                    // of the stored names; files may leave it out
  std::span<std::string_view const> also{};     // ends of names of tensors in files that the model does not need
  std::span<std::string_view const> required{}; // keys that a config.json must have; others may be missing
};

/// The weight format of a model; specialize it for a model of your own. By default every parameter is a tensor of its
/// own name, its iterations stacked.
template <class model> struct weight_format_of {
  /// The format for one model.
  static weight_format make(model const&) { return {}; }
};

} // namespace constrain
