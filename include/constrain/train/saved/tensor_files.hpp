#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/io/safetensors_files.hpp"
#include "constrain/model/weight_format.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/train/parameter_table.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One tensor of a safetensors file: a parameter, an optimizer state or a setting. For a parameter inside a repeat, and
/// for its states, the tensor stacks all iterations or holds one iteration.
struct file_tensor {
  tensor_info const* info = nullptr;      // the parameter, state or setting, in the arena
  std::int64_t first = 0, iterations = 1; // this tensor holds iterations [first, first + iterations)
  bool transposed = false;                // whether each matrix is [in, out] in the file; in the arena it is [out, in]
  bool optional = false;                  // whether a saved run may lack this tensor (a setting keeps its value)
  io::tensor tensor;                      // name, dtype and shape in the file; `bytes` is set by `gathered_tensors`

  /// Length in bytes, with elements of the dtype in the arena.
  std::size_t bytes() const {
    return static_cast<std::size_t>(iterations * info->shape.elements() * size_of(info->type));
  }
};

/// The tensors of a file with all weights, without their bytes. `names`: the parameters whose names or layouts in the
/// file differ from the names and layouts in `list`. `saved`: a file to read, which may have the names of an earlier
/// version of this library; null: a file to write. Throws `error` if `names` transposes a parameter that is not a
/// matrix.
[[gnu::cold]] std::vector<file_tensor> weight_tensors(parameter_list const& list, stored_names names,
                                                      io::safetensors_files const* saved = nullptr);

/// The tensors of a file with all optimizer states, without their bytes. The states are named "<parameter>.<state>",
/// for example "token.weight.exp_avg". The settings follow, named "setting.<name>". As long as an earlier tensor of the
/// file has the same name, another "setting." is put in front. `saved`: as in `weight_tensors`.
[[gnu::cold]] std::vector<file_tensor> state_tensors(parameter_list const& list,
                                                     io::safetensors_files const* saved = nullptr);

/// Full tensors in host memory, ready to be written. Tensors that several ranks hold together are all-gathered, and
/// device tensors are copied. Full tensors that the host can address are only viewed: the arena must not change before
/// these tensors are written.
class gathered_tensors {
public:
  /// Gathers the tensors `tensors` of the arena `memory`. Collective over `group` if several ranks hold a tensor
  /// together.
  gathered_tensors(std::vector<file_tensor> tensors, arena& memory, communicator& group);

  /// The consecutive tensors of one file.
  struct shard {
    std::size_t first = 0; // index of the first tensor
    std::size_t count = 0; // number of tensors
  };
  /// Divides the tensors, in order, into shards of at most `maximum_bytes` bytes; a larger tensor has its own shard.
  [[gnu::cold]] std::vector<shard> shards(std::size_t maximum_bytes) const;

  /// Writes all tensors, or the tensors of one shard, as a safetensors file. Throws `error` if `out` cannot be written,
  /// if two of the tensors have the same name, or if the format does not allow a name (`io::write_safetensors`).
  void write(io::output_file& out) const { write(out, {0, tensors_.size()}); }
  [[gnu::cold]] void write(io::output_file& out, shard file_shard) const;

  /// The text of the index of several files (`io::safetensors_index`). `files[k]`: the name of the file of
  /// `file_shards[k]`. Throws `error` if two tensors have the same name.
  [[gnu::cold]] std::string index_of(std::vector<shard> const& file_shards,
                                     std::vector<std::string> const& files) const;

private:
  /// The bytes of all iterations of the full tensor; copied into `full_tensors_` unless they can be viewed in the
  /// arena.
  std::byte const* full_tensor(file_tensor const& t, arena& memory, communicator& group);

  std::vector<file_tensor> tensors_;
  std::vector<std::vector<std::byte>> full_tensors_;
};

/// Copies the `bytes` of a tensor from the layout of the file into the arena `memory`. For a tensor that several ranks
/// of `group` hold together, copies only the elements that this rank stores. `bytes` must already have the tensor's
/// dtype.
[[gnu::cold]] void take_tensor(file_tensor const& t, std::span<std::byte const> bytes, arena& memory,
                               communicator& group);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/tensor_files.ipp"
#endif
