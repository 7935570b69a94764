#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"
#include "constrain/run/arena.hpp"
#include "constrain/train/initialize.hpp"
#include "constrain/train/parameter_table.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A view of a tensor in the arena of a trainer or an inference object, in host or device memory, valid while that
/// object exists. For a tensor that several ranks hold together, `copy_to` and `copy_bytes_to` are collective over
/// these ranks.
class tensor_view {
public:
  /// A view of the tensor in `memory` that `info`, an entry of the parameter table, describes. `group`: the ranks that
  /// together hold the tensor; not used if every rank holds all of it.
  tensor_view(arena& memory, tensor_info const& info, communicator* group)
      : memory_(&memory), info_(info), group_(info.holders() > 1 ? group : nullptr) {}
  /// The same view, for a gradient whose elements in memory are multiplied by `*factor`: `copy_to` divides by the value
  /// that `*factor` has at the time of the call, and `copy_from` multiplies by this value. `*factor` must outlive the
  /// view.
  tensor_view multiplied_by(double const* factor) const {
    auto view = *this;
    view.factor_ = factor;
    return view;
  }

  /// The same view, for the value of parameter `parameter` of `list`: `copy_from` also resets the average and the
  /// compensation of this parameter, if the optimizer has these states.
  tensor_view of_parameter(parameter_list const& list, int parameter) const {
    auto view = *this;
    view.list_ = list, view.parameter_ = parameter;
    return view;
  }

  /// The shape of one iteration's full tensor.
  constrain::shape const& shape() const { return info_.shape; }
  /// The product of the iteration counts of all repeats (loops of the model) around the parameter; 1 without a repeat.
  std::int64_t iterations() const { return info_.iterations; }
  /// Whether the parameter is inside a repeat. If so, the first dimension of a copied array is the iteration.
  bool stacked() const { return info_.stacked; }
  /// The dtype in the arena.
  dtype type() const { return info_.type; }
  /// Elements of the full tensors of all iterations.
  std::int64_t size() const { return info_.elements(); }

  /// Copies all elements to `to`, row-major, converted to `real`. Throws `error` unless `to` has `size()` elements and
  /// the tensor's elements are floating-point numbers.
  template <class real> void copy_to(std::span<real> to) const {
    check(to.size()), check_real("cannot be converted; use copy_bytes_to");
    double const factor = factor_ == nullptr ? 1 : *factor_;
    visit_real(type(), [&]<class stored>(stored) {
      auto const converted = [&](stored x) { return static_cast<real>(static_cast<double>(x) / factor); };
      if (group_ != nullptr) {
        std::vector<stored> full(to.size());
        group_->entered("copy_to"); // the watchdog's error names the call
        gather(reinterpret_cast<std::byte*>(full.data()));
        std::transform(full.begin(), full.end(), to.begin(), converted);
        return;
      }
      for_slices<stored>(0, size(), [&](stored* slice, std::int64_t begin, std::int64_t n) {
        memory_->read(info_.offset + begin * size_of(type()), slice, n * size_of(type()));
        std::transform(slice, slice + n, to.begin() + begin, converted);
      });
    });
  }
  /// Copies the bytes of all elements, row-major, in the dtype of the arena. With precision::fp16, a gradient's
  /// elements are still multiplied by the loss scale. Throws `error` unless `to` has as many bytes as all elements.
  void copy_bytes_to(std::span<std::byte> to) const;
  /// Sets all elements to the elements of `from`, row-major, converted from `real`. Each rank copies only the elements
  /// that it stores, so all ranks must call this function, with equal elements; this is not checked. For a parameter,
  /// its average (optimizer::averaged) becomes a copy of the new value, and its compensation (optimizer::states_in with
  /// precision::pure_bf16) becomes 0; other states keep their values. Throws `error` unless `from` has `size()`
  /// elements and the tensor's elements are floating-point numbers.
  template <class real> void copy_from(std::span<real const> from) const {
    check(from.size()), check_real("cannot be set; load a saved run to change it");
    double const factor = factor_ == nullptr ? 1 : *factor_;
    memory_->mark_changed(info_.offset);
    visit_real(type(), [&]<class stored>(stored) {
      for (std::int64_t iteration = 0; iteration < iterations(); ++iteration)
        info_.for_each_run(rank(), [&](stored_run const& run) {
          auto const* const full = from.data() + iteration * info_.shape.elements() + run.begin;
          for_slices<stored>(0, run.length, [&](stored* slice, std::int64_t begin, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
              slice[i] = static_cast<stored>(static_cast<double>(full[begin + i]) * factor);
            memory_->write(offset_of(iteration, run.stored_begin + begin), slice, n * size_of(type()));
          });
        });
    });
    if (parameter_ >= 0) reset_states_with_parameter(list_, parameter_, *memory_, rank());
  }

private:
  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  /// The arena offset, in bytes, of this rank's element i of an iteration.
  std::int64_t offset_of(std::int64_t iteration, std::int64_t i) const {
    return info_.offset + (iteration * info_.stride + i) * size_of(info_.type);
  }

  /// All-gathers the full tensors of all iterations into `full`.
  void gather(std::byte* full) const;

  /// Calls f(buffer, slice_begin, n) for [begin, end) in slices of n <= 1024 elements; `buffer` can hold a slice.
  template <class stored, class function>
  static void for_slices(std::int64_t begin, std::int64_t end, function const& f) {
    stored buffer[1024];
    for (; begin < end; begin += 1024) f(buffer, begin, std::min<std::int64_t>(1024, end - begin));
  }

  /// Throws `error` unless `length` is `size()`.
  void check(std::size_t length) const;
  /// Throws `error` unless the elements are floating-point numbers. `consequence`: the end of the error's sentence.
  void check_real(char const* consequence) const;

  arena* memory_;
  tensor_info info_;
  communicator* group_;            // the ranks that together hold the tensor; null: every rank holds all of it
  double const* factor_ = nullptr; // the elements in memory are multiplied by `*factor_`; null: by 1
  parameter_list list_;            // the parameters of the trainer or inference object; empty: not set
  int parameter_ = -1;             // index in `list_` of the parameter with this value; -1: not a parameter's value
};

/// A parameter's tensor with its name and role.
struct parameter_view : tensor_view {
  /// Adds name `n` and role `r` to the tensor `t`.
  parameter_view(tensor_view t, std::string_view n, constrain::role r) : tensor_view(t), name(n), role(r) {}
  std::string_view name; // dotted, for example "block.mlp.up.weight"
  constrain::role role;  // weight, bias, norm, embedding, head or frozen
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/tensor_view.ipp"
#endif
