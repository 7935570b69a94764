#pragma once

#include "constrain/program/dtype.hpp"
#include "constrain/program/error.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace constrain {

/// A tensor of a trainer: its bytes belong to the trainer and live as long as it.
class tensor_view {
public:
  tensor_view(std::byte* data, dtype type, std::int64_t trips, bool stacked, constrain::shape s)
      : data_(data), type_(type), trips_(trips), stacked_(stacked), shape_(s) {}

  /// Extents of one trip.
  constrain::shape const& shape() const { return shape_; }
  /// How many trips are stacked, one after another.
  std::int64_t trips() const { return trips_; }
  /// Whether a repeat stacks it; the trip then is its first dimension.
  bool stacked() const { return stacked_; }
  dtype type() const { return type_; }
  std::int64_t size() const { return trips_ * shape_.elements(); }
  std::span<std::byte> bytes() const { return {data_, static_cast<std::size_t>(size() * size_of(type_))}; }

  /// Copies all elements, converted. Throws `error` where `to` has another length.
  template <class real> void copy_to(std::span<real> to) const {
    check(to.size());
    visit([&](auto const* from) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<real>(from[i]);
    });
  }
  /// Sets all elements, converted. Throws `error` where `from` has another length.
  template <class real> void copy_from(std::span<real const> from) const {
    check(from.size());
    visit([&](auto* to) {
      for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(from[i]);
    });
  }

private:
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
};

/// A parameter: its tensor and what it is.
struct parameter_view : tensor_view {
  parameter_view(tensor_view t, std::string_view n, constrain::role r) : tensor_view(t), name(n), role(r) {}
  std::string_view name;
  constrain::role role;
};

} // namespace constrain
