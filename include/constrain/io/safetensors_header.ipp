#pragma once

#include "constrain/io/safetensors_header.hpp"

#include "constrain/base/heap_sort.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::read(tensor_function on_tensor,
                                                             metadata_function on_metadata) const {
  auto cursor = start_;
  bool has_metadata = false;
  cursor.object([&](std::string_view name) {
    if (decoded_text(cursor, name) != "__metadata__") return on_tensor(read_entry(cursor, name));
    if (has_metadata) refuse_duplicate(cursor, cursor.position_of(name));
    has_metadata = true;
    if (cursor.kind() == json_kind::null) return static_cast<void>(cursor.word_token()); // null: no metadata
    cursor.object([&](std::string_view key) { on_metadata(key, cursor.string()); });
  });
  cursor.finish();
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::check() const {
  std::size_t tensors = 0, metadata = 0;
  read([&](safetensors_entry const&) { increment_checked(tensors, " tensors; split it into several files"); },
       [&](std::string_view, std::string_view) {
         increment_checked(metadata, " entries of metadata; keep them in a separate file");
       });
  // `positions` takes 4 bytes per name. It is allocated only after the checks of the JSON and of the number of names.
  std::vector<std::uint32_t> positions;
  positions.reserve(std::max(tensors, metadata));
  read([&](safetensors_entry const& entry) { positions.push_back(start_.position_of(entry.name)); }, ignore);
  refuse_duplicates(start_, positions);
  positions.clear();
  read(ignore, [&](std::string_view name, std::string_view) { positions.push_back(start_.position_of(name)); });
  refuse_duplicates(start_, positions);
  positions.clear();
  read([&](safetensors_entry const& entry) { positions.push_back(entry.offsets); }, ignore);
  check_layout(positions);
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::int64_t> safetensors_header::shape(
    safetensors_entry const& entry) const {
  std::vector<std::int64_t> extents;
  auto cursor = start_.from(entry.shape);
  cursor.array([&] { extents.push_back(cursor.whole_number<std::int64_t>()); });
  return extents;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_entry safetensors_header::read_entry(json_cursor& cursor,
                                                                                std::string_view name) const {
  safetensors_entry entry{name, {}};
  element_count elements;
  auto const object = cursor.position();
  cursor.object([&](std::string_view member) {
    auto const matches = [&, spelled = decoded_text(cursor, member)](std::string_view expected, bool is_new) {
      if (spelled != expected) return false;
      if (!is_new) refuse_duplicate(cursor, cursor.position_of(member));
      return true;
    };
    if (matches("dtype", entry.dtype.empty())) read_dtype(cursor, entry);
    else if (matches("shape", entry.shape == 0)) read_shape(cursor, entry, elements);
    else if (matches("data_offsets", entry.offsets == 0)) read_offsets(cursor, entry);
    else
      throw refusal(name, "has members other than dtype, shape and data_offsets",
                    "remove these members, or get the file again if it is damaged");
  });
  if (entry.dtype.empty()) cursor.from(object).missing("dtype");
  if (entry.shape == 0) cursor.from(object).missing("shape");
  if (entry.offsets == 0) cursor.from(object).missing("data_offsets");
  auto const needed = elements.bytes(dtype_bytes(entry.dtype));
  if (!needed) throw refusal(name, "has a shape too large to count");
  if (*needed != entry.end - entry.begin)
    throw refusal(
        name, concat({"has ", counted(entry.end - entry.begin, "byte"), ", but its dtype and shape need ", *needed}));
  return entry;
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::read_dtype(json_cursor& cursor,
                                                                   safetensors_entry& entry) const {
  entry.dtype = decoded_text(cursor, cursor.string());
  if (dtype_bytes(entry.dtype) == 0)
    throw refusal(entry.name, concat({"has the unsupported dtype '", entry.dtype, "'"}),
                  "convert the tensor to F32, F16 or BF16, or get the file again if it is damaged");
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::read_shape(json_cursor& cursor, safetensors_entry& entry,
                                                                   element_count& elements) const {
  entry.shape = cursor.position();
  cursor.array([&] {
    auto const begin = cursor.position();
    auto const extent = cursor.whole_number<std::int64_t>();
    if (extent < 0) cursor.from(begin).refuse_value("an extent of zero or more");
    elements.multiply(extent);
  });
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::read_offsets(json_cursor& cursor,
                                                                     safetensors_entry& entry) const {
  auto const array = cursor.position();
  auto const refuse_count = [&] { cursor.from(array).refuse_value("an array of two offsets"); };
  int count = 0;
  cursor.array([&] {
    if (++count > 2) refuse_count();
    if (count == 1) entry.offsets = cursor.position();
    (count == 1 ? entry.begin : entry.end) = cursor.whole_number<std::uint64_t>();
  });
  if (count < 2) refuse_count();
  if (entry.begin > entry.end)
    throw refusal(entry.name,
                  concat({"begins at byte ", entry.begin, " of the data, but ends before that, at byte ", entry.end}));
  if (entry.end > data_bytes_)
    throw refusal(entry.name, concat({"ends at byte ", entry.end, " of the data, but the file has ",
                                      counted(data_bytes_, "byte"), " of data"}));
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::check_layout(std::vector<std::uint32_t>& tensors) const {
  auto const begin_of = [&](std::uint32_t offsets) { return start_.from(offsets).whole_number<std::uint64_t>(); };
  constrain::detail::heap_sort(tensors, [&](std::uint32_t a, std::uint32_t b) {
    auto const x = begin_of(a), y = begin_of(b);
    return x < y || (x == y && a < b);
  });
  // An empty tensor may be at the beginning of a non-empty tensor, but not inside one.
  std::uint64_t last_begin = 0, last_end = 0; // begin and end of the last non-empty tensor
  for (auto const offsets : tensors) {
    auto const [begin, end] = read_pair(offsets);
    if (begin > last_end) refuse_tensor_at(offsets, "has unused bytes before it");
    if (begin < last_end && (begin < end || begin > last_begin))
      refuse_tensor_at(offsets, "overlaps the tensor before it");
    if (begin < end) last_begin = begin, last_end = end;
  }
  if (last_end != data_bytes_)
    throw error({"'", source_, "' has ", counted(data_bytes_ - last_end, "byte"),
                 " after its last tensor; get the file again"});
}

[[gnu::cold]] CONSTRAIN_INLINE std::pair<std::uint64_t, std::uint64_t> safetensors_header::read_pair(
    std::uint32_t offsets) const {
  auto cursor = start_.from(offsets);
  auto const begin = cursor.whole_number<std::uint64_t>();
  cursor.space();
  cursor.take(',');
  cursor.space();
  return {begin, cursor.whole_number<std::uint64_t>()};
}

[[gnu::cold]] CONSTRAIN_INLINE void safetensors_header::refuse_tensor_at(std::uint32_t offsets,
                                                                         std::string_view reason) const {
  read(
      [&](safetensors_entry const& entry) {
        if (entry.offsets == offsets) throw refusal(entry.name, reason);
      },
      ignore);
}

} // namespace constrain::io::detail
