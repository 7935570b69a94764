#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/model/weight_format.hpp"
#include "constrain/train/saved/tensor_files.hpp"

#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loads weights into the arena (`memory`) and leaves the rest of the run unchanged. `path`: a safetensors file, or a
/// directory that Hugging Face Transformers or `save_run` wrote, with model.safetensors and, if present, config.json.
/// Converts F64, F32, BF16 and F16 tensors to the parameters' dtype. `list`: the parameters. `format`: their names in
/// the file. `group`: the ranks that hold the shards. `ranks` lets all ranks agree that every check passed before the
/// first byte is written. Throws `error` if the weights file is missing, if a file is damaged, if a tensor is missing,
/// has any other dtype, or has the wrong shape, if a tensor is neither the model's nor matched by
/// `format.ignored_suffixes`, or if config.json lacks a required key or contradicts the model's configuration. Call
/// this function within `agreement::run`.
[[gnu::cold]] void load_pretrained(std::string const& path, parameter_list const& list, weight_format const& format,
                                   arena& memory, communicator& group, agreement& ranks);
/// `load_pretrained` within an `agreement` over `world`: throws on all ranks if a check fails on one. Collective.
[[gnu::cold]] void load_pretrained(std::string const& path, parameter_list const& list, weight_format const& format,
                                   arena& memory, communicator& world, communicator& group);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/pretrained.ipp"
#endif
