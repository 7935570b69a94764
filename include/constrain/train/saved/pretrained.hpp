#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/safetensors_files.hpp"
#include "constrain/model/weight_format.hpp"
#include "constrain/train/saved/tensor_files.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `load_pretrained`.
struct pretrained_options {
  /// Whether the stored tensors, without those that the model's format ignores, must be exactly the model's. If false,
  /// a tensor of the model that is not stored keeps its values (for example, a new head on a pretrained body), a stored
  /// tensor that the model does not have is ignored, and the keys of config.json that describe the head are not
  /// compared.
  bool strict = true;
};

/// The tensors that `load_pretrained` did not load.
struct loaded_weights {
  std::vector<std::string> missing;    ///< Tensors of the model, by their names in files, that kept their values.
  std::vector<std::string> unexpected; ///< Stored tensors that the model does not have and its format does not ignore.

  /// Both lists as a sentence.
  [[gnu::cold]] std::string text() const;
};

/// Loads weights into the arena (`memory`) and leaves the rest of the run unchanged. Returns the names of the tensors
/// that were not loaded. `path`: a safetensors file, or a directory that Hugging Face Transformers or `save_run` wrote.
/// The directory has model.safetensors, or model.safetensors.index.json and the files that it lists; config.json is
/// optional, and a manifest.json that is the JSON of another program is ignored. Converts F64, F32, BF16 and F16
/// tensors to the parameters' dtype. `list`: the parameters. `format`: how files store them. `group`: the ranks that
/// together hold the tensors. Through `ranks`, before the first byte is written, all ranks agree that every check
/// passed, and that they read the same saved run or, for other weights, the same tensors with the same types and
/// values. Throws `error` if the weights file is missing, if a file is damaged, if a tensor of the model is stored with
/// a dtype other than these four or with the wrong shape, if one of `format.copies` differs from its original, or if
/// config.json lacks a required key or contradicts the model's configuration. With `options.strict`, also throws if a
/// tensor is missing, or is neither the model's nor matched by `format.ignored_suffixes`; without `options.strict`, if
/// no tensor is the model's. Call this function within `agreement::run`.
[[gnu::cold]] loaded_weights load_pretrained(std::string const& path, pretrained_options const& options,
                                             parameter_list const& list, weight_format const& format, arena& memory,
                                             communicator& group, agreement& ranks);
/// `load_pretrained` within an `agreement` over `world`: throws on all ranks if a check fails on any rank, or if ranks
/// read different weights. Other arguments: as above. Collective.
[[gnu::cold]] loaded_weights load_pretrained(std::string const& path, pretrained_options const& options,
                                             parameter_list const& list, weight_format const& format, arena& memory,
                                             communicator& world, communicator& group);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/pretrained.ipp"
#endif
