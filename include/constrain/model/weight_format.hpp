#pragma once

#include "constrain/base/variant.hpp"

#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace io {
class json;
} // namespace io

/// The name of a parameter in files that other programs read and write.
struct stored_name {
  std::string_view name;   // name in this library, such as "block.mlp.up.weight"
  std::string_view stored; // name in files; '*' stands for the iteration of a repeat: one tensor per iteration
  bool transposed = false; // whether the matrix is [in, out] in files; in this library it is [out, in]
};

/// The names of parameters in files. A parameter that is not listed has the same name in files; if it belongs to a
/// repeat, one tensor holds its values for all iterations.
using stored_names = std::span<stored_name const>;

/// The end of a stored name that some files write differently.
struct other_suffix {
  std::string_view suffix; // of a stored name
  std::string_view other;  // what these files have in its place
};

/// A tensor that files may have besides the one whose copy it is, such as the head that is tied to the token embedding.
struct stored_copy {
  std::string_view name; // stored name of the copy
  std::string_view of;   // stored name of the tensor that is loaded
};

/// The names of the files in a model's directory: the weights, or the index of the files that have them, and the
/// configuration.
inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* weights_index_file = "model.safetensors.index.json";
inline constexpr char const* configuration_file = "config.json";

/// How the weights of a model are stored in files that this library shares with other programs.
struct weight_format {
  stored_names names{};        // names of the parameters that files name differently
  std::string configuration{}; // the text of config.json; empty: the file is neither written nor read
  std::string_view prefix{};   // prefix of the stored names; files may omit it
  std::span<std::string_view const> ignored_suffixes{}; // name suffixes of the tensors to ignore in files
  std::span<std::string_view const> required_keys{};    // keys that a config.json must have; other keys may be missing
  // For values that a config.json can hold in several ways, or not at all: a function that returns the text of a JSON
  // object with these values in one way, and what it must return for this model. Null: there are no such values.
  std::string (*standard_of)(io::json const& configuration) = nullptr;
  std::string standard{}; // the text of a JSON object, compared with the result of `standard_of` member by member
  std::span<other_suffix const> other_suffixes{}; // accepted in files, but not written
  std::span<stored_copy const> copies{};          // not loaded; refused if they differ from the tensors that are
  // Keys of `configuration` and `standard` that describe the head alone: not compared if the weights may lack a head.
  std::span<std::string_view const> head_keys{};
};

/// The weight format of a model; specialize this template for your own model. By default, every parameter is one tensor
/// under its name in this library, and there is no config.json.
template <class model> struct weight_format_of {
  /// The format for one model.
  static weight_format make(model const&) { return {}; }
};

} // namespace constrain
