#pragma once

#include "constrain/base/units.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/io/safetensors_files.hpp"
#include "constrain/model/weight_format.hpp"
#include "constrain/train/saved/tensor_files.hpp"
#include "constrain/train/training_state.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The part of a trainer's configuration that, besides the parameters and the model's config.json, must match a saved
/// run to resume it.
struct saved_configuration {
  std::string precision;             // name of the precision policy
  std::string optimizer;             // name of the optimizer policy
  std::int64_t tokens = 0;           // sequence length; the data position counts samples of this length
  std::string optimizer_state;       // state per weight, such as "2 x fp32"; empty for an optimizer with an update rule
  std::string optimizer_state_names; // names of the state fields; empty if the optimizer gives no names
  std::string policies;              // other policies that must match, such as "train_only<role::bias>"; empty: none
};

/// Options of `trainer::save`.
struct save_options {
  /// The maximum total size of the tensors in one file with weights, like Hugging Face's `max_shard_size`; 0: one file,
  /// model.safetensors. If the weights are larger, they are written to model-00001-of-00003.safetensors and so on, with
  /// model.safetensors.index.json; a tensor larger than this size has its own file. With several ranks, rank 0's value
  /// counts.
  bytes max_shard_size{};
};

namespace detail {

/// Throws `error` if `.max_shard_size` is negative. `owner`: the struct or call with this option, as in `check_number`.
void check_max_shard_size(std::string_view owner, bytes max_shard_size);

/// A shape as text, for example "[3, 4]".
[[gnu::cold]] std::string shape_text(std::vector<std::int64_t> const& shape);

/// The weights of a saved run, as views of the reader's memory. Throws `error` if a file is missing or not valid.
[[gnu::cold]] io::safetensors_files weights_of(io::directory_reader const& reader);

/// A hash of the checksums of all files of a saved run.
[[gnu::cold]] std::uint64_t content_hash(io::directory_reader const& reader);

/// The training state of the saved run in `directory`. Throws `error` if the directory is missing or damaged, or if a
/// value of the state is missing or out of range.
[[gnu::cold]] training_state saved_state(std::string const& directory);

} // namespace detail

/// Saves weights, optimizer states, settings and the training state `s` to a directory, atomically: an older saved run
/// in the directory stays intact until the new one is complete. Creates missing parent directories. `list`, `memory`:
/// the trainer's parameters and arena. `format`: how other programs store the weights. `c` is saved too, and `load_run`
/// checks it. `group`: the ranks that together hold the tensors. Throws the same `error` on every rank if
/// `options.max_shard_size` is negative, if two tensors would have the same name in the files, if the directory exists
/// and belongs to another user, or is neither empty nor saved by this library, or is or contains the working directory,
/// or if a file cannot be written. Collective over `world`.
void save_run(std::string const& directory, save_options const& options, parameter_list const& list,
              weight_format const& format, saved_configuration const& c, training_state const& s, arena& memory,
              communicator& world, communicator& group);

/// Copies the tensors of a saved run into the arena and returns the training state. Every rank checks everything before
/// the first byte is copied; through `ranks`, all ranks agree that all checks passed and that they read the same run.
/// Throws `error` if the directory is missing or damaged, if its format version, configuration or tensors differ from
/// the expected ones, if its config.json contradicts the model's configuration, or if its training state or a setting
/// is out of range. Does not compare config.json if the run has none or the model has no configuration, and never
/// compares the keys in `weight_format::limits`. `list`, `format`, `c`, `memory`, `group`: as in `save_run`. Call this
/// function within `agreement::run`.
[[gnu::cold]] training_state load_run(std::string const& directory, parameter_list const& list,
                                      weight_format const& format, saved_configuration const& c, arena& memory,
                                      communicator& group, agreement& ranks);
/// `load_run` within an `agreement` over `world`: throws on all ranks if a check fails on any rank, or if ranks read
/// different saved runs. Other arguments: as above. Collective.
[[gnu::cold]] training_state load_run(std::string const& directory, parameter_list const& list,
                                      weight_format const& format, saved_configuration const& c, arena& memory,
                                      communicator& world, communicator& group);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/saved_run.ipp"
#endif
