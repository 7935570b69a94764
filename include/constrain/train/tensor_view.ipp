#pragma once

#include "constrain/train/tensor_view.hpp"

#include "constrain/base/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE void tensor_view::copy_bytes_to(std::span<std::byte> to) const {
  auto const bytes = static_cast<std::size_t>(size() * size_of(type_));
  if (to.size() != bytes)
    throw error(
        {"a tensor of ", bytes, " bytes was copied to an array of ", to.size(), " bytes; give one of the same length"});
  if (map().shards > 1) gather(to.data());
  else memory_->read(offset_, to.data(), size() * size_of(type_));
}

CONSTRAIN_INLINE void tensor_view::gather(std::byte* full) const {
  auto const m = map();
  std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int rank = 0; rank < group_->size(); ++rank) {
    offsets[rank] = m.begin(rank) * size_of(type_);
    lengths[rank] = m.length(rank) * size_of(type_);
  }
  for (std::int64_t iteration = 0; iteration < iterations_; ++iteration) {
    auto* const to = full + iteration * m.elements * size_of(type_);
    memory_->read(offset_ + iteration * step_ * size_of(type_), to + offsets[group_->rank()], lengths[group_->rank()]);
    group_->all_gather(to, offsets, lengths);
  }
}

CONSTRAIN_INLINE void tensor_view::check_real() const {
  if (!is_real(type_))
    throw error({"a tensor of ", name_of(type_), " elements has no real numbers to copy; use copy_bytes_to"});
}

CONSTRAIN_INLINE void tensor_view::check(std::size_t length) const {
  if (length != static_cast<std::size_t>(size()))
    throw error(
        {"a tensor of ", size(), " elements was copied with an array of ", length, "; give one of the same length"});
}

} // namespace constrain
