#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Writes tensors in the safetensors format to `out`, which the caller closes. Tensors are sorted by element size, the
/// largest first, so that every tensor begins at a multiple of its element size; tensors of the same element size keep
/// their order. `bytes_of(i)` returns the `tensors[i].bytes.size()` bytes of tensor i, which must be valid until the
/// next call; `bytes_of` is called once per tensor, in the order of the file. Only the size of `tensors[i].bytes` is
/// used. `metadata`: the header's "__metadata__". Throws `error` for tensors that cannot be written (more than
/// `safetensors_maximum_names`, a dtype that `dtype_bytes` does not list, an invalid shape, a wrong number of bytes, or
/// a name that is duplicate, reserved or not UTF-8), for metadata with too many keys, a duplicate key or text that is
/// not UTF-8, and if writing fails.
[[gnu::cold]] void write_safetensors(output_file& out, std::span<tensor const> tensors, metadata_list const& metadata,
                                     function_ref<std::span<std::byte const>(std::size_t)> bytes_of);
/// Like the overload above, with `tensors[i].bytes` as `bytes_of(i)`.
inline void write_safetensors(output_file& out, std::span<tensor const> tensors, metadata_list const& metadata = {}) {
  write_safetensors(out, tensors, metadata, [&](std::size_t i) { return tensors[i].bytes; });
}

/// Writes a safetensors file atomically (see `atomic_file`). Throws the errors of the overloads above and of
/// `atomic_file`: an older file at `path` is then unchanged, unless the sync of the directory failed.
void write_safetensors(std::string const& path, std::span<tensor const> tensors, metadata_list const& metadata = {});

namespace detail {

/// The index of one of two entries with the same name; nullopt if all names are unique. `count`: number of entries;
/// `name_of(i)`: name of entry i.
[[gnu::cold]] std::optional<std::uint32_t> duplicate_name(std::size_t count,
                                                          function_ref<std::string_view(std::uint32_t)> name_of);

} // namespace detail

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/safetensors_writer.ipp"
#endif
