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
  std::string_view stored; // name in files; '*': the iteration (from 0) of a repeat, with one tensor per iteration;
                           // nested repeats: all iterations are numbered together, in the order in which they run
  bool transposed = false; // whether each matrix is [in, out] in files; in this library it is [out, in]
};

/// The names of parameters in files. A parameter that is not listed has the same name in files; if it belongs to a
/// repeat, one tensor holds its values for all iterations.
using stored_names = std::span<stored_name const>;

/// A suffix of stored names that some files write differently.
struct other_suffix {
  std::string_view suffix; // suffix of a stored name
  std::string_view other;  // the suffix in these files
};

/// A copy of another tensor that files may also contain, such as a head that is tied to the token embedding.
struct stored_copy {
  std::string_view name; // stored name of the copy
  std::string_view of;   // stored name of the tensor that is loaded; if it is missing, the copy is loaded
};

/// The names of the files in a model's directory: the weights, the index if several files contain the weights, and the
/// configuration.
inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* weights_index_file = "model.safetensors.index.json";
inline constexpr char const* configuration_file = "config.json";

/// The format of a model's weights in files that other programs read and write. The spans and string_views are not
/// copied: let them refer to static arrays and string literals.
struct weight_format {
  stored_names names{};        // parameters whose names or layouts differ in files
  std::string configuration{}; // the text of config.json; empty: the file is neither written nor read
  std::string_view prefix{};   // a prefix of stored names that files may omit
  std::span<std::string_view const> ignored_suffixes{}; // name suffixes of tensors to ignore unless the model has them
  // Keys that `load_pretrained` needs in a config.json or in the result of `normalize`.
  std::span<std::string_view const> required_keys{};
  // Returns some values of a config.json in one standard form, as the text of a JSON object: the values that files
  // write in several forms or leave out. Null: there are no such values. A model_type in `normalized` is compared
  // instead of the model_type in `configuration`.
  std::string (*normalize)(io::json const& configuration) = nullptr;
  // The values that the result of `normalize` must have for this model. A key is compared only if both objects have a
  // value that is not null, and the value here is not an array.
  std::string normalized{};
  std::span<other_suffix const> other_suffixes{}; // accepted in files, but not written
  // Copies of other tensors. A copy is loaded only if the tensor that it copies is missing. Refused: a copy that
  // differs from this tensor and, with `.strict`, a copy that is not loaded and matches no suffix in
  // `ignored_suffixes`.
  std::span<stored_copy const> copies{};
  // Keys of `configuration` and `normalized` that describe only the head. With `.strict = false`, `load_pretrained`
  // does not compare them.
  std::span<std::string_view const> head_keys{};
  // Keys of `configuration` whose values `normalized` replaces: they are compared only in the form of `normalized`.
  std::span<std::string_view const> normalized_keys{};
  // Keys of `configuration` that only limit inputs: `trainer::load`, `load_tensors` and `resume` do not compare them.
  std::span<std::string_view const> limits{};
};

/// The weight format of a model; specialize this template for your own model. By default, every parameter is one tensor
/// under its name in this library, and there is no config.json.
template <class model> struct weight_format_of {
  /// The format for one model.
  static weight_format make(model const&) { return {}; }
};

} // namespace constrain
