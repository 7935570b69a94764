#pragma once

#include "constrain/train/tensor_view.hpp"

#include "constrain/base/error.hpp"

#include <cstring>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE void tensor_view::copy_bytes_to(std::span<std::byte> to) const {
  auto const bytes = static_cast<std::size_t>(size() * size_of(type()));
  if (to.size() != bytes)
    throw error({"a tensor of ", counted(bytes, "byte"), " cannot be copied to an array of ", to.size(),
                 "; give an array of ", counted(bytes, "byte")});
  if (group_ != nullptr) gather(to.data());
  else memory_->read(info_.offset, to.data(), size() * size_of(type()));
}

CONSTRAIN_INLINE void tensor_view::gather(std::byte* full) const {
  auto const width = size_of(type()), stored_bytes = info_.map().stored() * width,
             bytes = info_.shape.elements() * width;
  bool const in_place = group_->size() == info_.shards; // each rank's elements are contiguous in the full tensor
  std::vector<std::byte> buffer(in_place ? 0 : static_cast<std::size_t>(group_->size() * stored_bytes));
  std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int r = 0; r < group_->size(); ++r) {
    offsets[r] = in_place ? info_.map().begin(r) * width : r * stored_bytes;
    lengths[r] = in_place ? info_.map().length(r) * width : stored_bytes;
  }
  for (std::int64_t iteration = 0; iteration < iterations(); ++iteration) {
    auto* const tensor = full + iteration * bytes;
    auto* const gathered = in_place ? tensor : buffer.data();
    memory_->read(offset_of(iteration, 0), gathered + offsets[rank()], lengths[rank()]);
    group_->all_gather(gathered, offsets, lengths);
    for (int r = 0; !in_place && r < group_->size(); ++r)
      info_.for_each_run(r, [&](stored_run const& run) {
        std::memcpy(tensor + run.begin * width, gathered + offsets[r] + run.stored_begin * width,
                    static_cast<std::size_t>(run.length * width));
      });
  }
}

CONSTRAIN_INLINE void tensor_view::check_real(char const* consequence) const {
  if (!is_real(type()))
    throw error({"a tensor of ", name_of(type()), " elements holds no floating-point numbers and ", consequence});
}

CONSTRAIN_INLINE void tensor_view::check(std::size_t length) const {
  if (length != static_cast<std::size_t>(size()))
    throw error({"a tensor of ", counted(size(), "element"), " cannot be copied to or from an array of ", length,
                 "; give an array of ", counted(size(), "element")});
}

} // namespace constrain
