#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/dtype.hpp"
#include "constrain/program/error.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain {

/// A tensor of a trainer: its bytes belong to the trainer and live as long as it. Where it is cut over ranks, copying
/// is something that all ranks of the group do together.
class tensor_view {
public:
  tensor_view(std::byte* data, dtype type, std::int64_t trips, bool stacked, constrain::shape s, communicator* group = nullptr)
      : data_(data), type_(type), trips_(trips), stacked_(stacked), shape_(s), group_(group) {}

  /// Extents of one trip.
  constrain::shape const& shape() const { return shape_; }
  /// How many trips are stacked, one after another.
  std::int64_t trips() const { return trips_; }
  /// Whether a repeat stacks it; the trip then is its first dimension.
  bool stacked() const { return stacked_; }
  dtype type() const { return type_; }
  std::int64_t size() const { return trips_ * shape_.elements(); }
  /// What this rank holds.
  std::span<std::byte> bytes() const { return {data_, static_cast<std::size_t>(trips_ * map().stored() * size_of(type_))}; }

  /// Copies all elements, converted. Throws `error` where `to` has another length.
  template <class real> void copy_to(std::span<real> to) const {
    check(to.size());
    visit([&](auto const* from) {
      auto const whole = gathered(from);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<real>(whole.empty() ? from[i] : whole[i]);
    });
  }
  /// Sets all elements, converted. Throws `error` where `from` has another length.
  template <class real> void copy_from(std::span<real const> from) const {
    check(from.size());
    auto const m = map();
    auto const shard = group_ == nullptr ? 0 : group_->rank();
    visit([&](auto* to) {
      for (std::int64_t trip = 0; trip < trips_; ++trip)
        for (std::int64_t i = 0; i < m.length(shard); ++i)
          to[trip * m.stored() + i] = static_cast<std::remove_reference_t<decltype(*to)>>(
              from[static_cast<std::size_t>(trip * m.elements + m.begin(shard) + i)]);
    });
  }

private:
  shard_map map() const { return {shape_.elements(), group_ == nullptr ? 1 : group_->size()}; }

  /// All pieces put together; empty where there is one.
  template <class real> std::vector<real> gathered(real const* mine) const {
    auto const m = map();
    if (m.shards == 1) return {};
    std::vector<real> whole(static_cast<std::size_t>(size()));
    std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
    for (int rank = 0; rank < group_->size(); ++rank) {
      offsets[rank] = m.begin(rank) * static_cast<std::int64_t>(sizeof(real));
      lengths[rank] = m.length(rank) * static_cast<std::int64_t>(sizeof(real));
    }
    for (std::int64_t trip = 0; trip < trips_; ++trip) {
      auto* const to = whole.data() + trip * m.elements;
      for (std::int64_t i = 0; i < m.length(group_->rank()); ++i) to[m.begin(group_->rank()) + i] = mine[trip * m.stored() + i];
      group_->all_gather(reinterpret_cast<std::byte*>(to), offsets, lengths);
    }
    return whole;
  }

  void check(std::size_t length) const {
    if (length != static_cast<std::size_t>(size()))
      throw error("a tensor of " + std::to_string(size()) + " elements was copied with an array of " +
                  std::to_string(length) + "; give one of the same length");
  }
  template <class function> void visit(function const& f) const {
    if (type_ == dtype::f64) f(reinterpret_cast<double*>(data_));
    else f(reinterpret_cast<float*>(data_));
  }

  std::byte* data_;
  dtype type_;
  std::int64_t trips_;
  bool stacked_;
  constrain::shape shape_;
  communicator* group_;
};

/// A parameter: its tensor and what it is.
struct parameter_view : tensor_view {
  parameter_view(tensor_view t, std::string_view n, constrain::role r) : tensor_view(t), name(n), role(r) {}
  std::string_view name;
  constrain::role role;
};

} // namespace constrain
