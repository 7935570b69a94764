#pragma once

#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The row stride, in elements, of rows of `features` elements, for GEMMs on tensor cores: a multiple of 64 elements
/// (NVIDIA, "Matrix multiplication background user's guide") or, with fewer than 512 features, of 16 bytes. A multiple
/// of 64 could make such short rows longer by more than an eighth.
constexpr std::int64_t padded_features(std::int64_t features, dtype type) {
  auto const multiple = features >= 512 ? 64 : 16 / size_of(type);
  return (features + multiple - 1) / multiple * multiple;
}

namespace detail {

/// Pads the rows of values that are operands or results of GEMMs.
class row_padding {
public:
  /// `p` must outlive this object.
  constexpr explicit row_padding(program& p) : p_(p) {
    for (int v = 0; v < p.values.size(); ++v) may_be_padded_[v] = has_rows_to_pad(p.values[v]);
    for (auto const& info : p.values)
      if (info.view) may_be_padded_[info.view.of.value] = false;
    for (auto const& n : p.nodes) {
      for (int k = 0; k < n.inputs.size(); ++k)
        record_operand(n.inputs[k].value, n.op->strided_inputs >> k, is_gemm_operand(n, k));
      for (int j = 0; j < n.outputs.size(); ++j)
        record_operand(n.outputs[j].value, n.op->strided_outputs >> j, n.op->gemm_operands != 0 && j == 0);
    }
  }

  /// Gives padded rows to `v` and to the values that overwrite it in place, if all of them can have padded rows and are
  /// equal in shape, type and axes, and one is an operand or result of a GEMM: they become views of a new value.
  constexpr void pad(int v) {
    bool possible = true, useful = false;
    for (int w = v; w >= 0; w = next(w)) {
      possible = possible && may_be_padded_[w] && p_.values[w].shape == p_.values[v].shape &&
                 p_.values[w].type == p_.values[v].type && p_.values[w].axes == p_.values[v].axes;
      useful = useful || in_gemm_[w];
    }
    if (!possible || !useful || p_.values.size() == program::maximum_values) return;
    auto info = p_.values[v];
    info.overwritten_by = {};
    info.shape.extent[info.shape.rank - 1] = padded_features(info.shape.features(), info.type);
    ref const padded{p_.add_value(info), at::current};
    for (int w = v; w >= 0;) {
      int const successor = next(w);
      p_.values[w].overwritten_by = {};
      p_.values[w].view = {.of = padded, .dimension = info.shape.rank - 1};
      w = successor;
    }
  }

  /// Changes the constructor's argument.
  constexpr void run() {
    int const count = p_.values.size();
    bool is_first[program::maximum_values]{}; // whether the value overwrites no other value
    for (int v = 0; v < count; ++v) is_first[v] = true;
    for (int v = 0; v < count; ++v)
      if (int const w = next(v); w >= 0) is_first[w] = false;
    for (int v = 0; v < count; ++v)
      if (is_first[v] && may_be_padded_[v]) pad(v);
  }

private:
  /// The value that overwrites `v`; -1: none.
  constexpr int next(int v) const { return p_.values[v].overwritten_by ? p_.values[v].overwritten_by.value : -1; }
  /// Whether input k of the call n is an operand of a GEMM.
  static constexpr bool is_gemm_operand(node const& n, int k) { return (n.op->gemm_operands >> k & 1u) != 0; }
  /// Whether the value is a floating-point activation with several rows, the length of a row is not a multiple of 16
  /// bytes, and the value is neither loop-carried nor an accumulator nor a view.
  static constexpr bool has_rows_to_pad(value_info const& info) {
    bool const is_plain = info.role == role::activation && !info.accumulates && !info.is_loop_carried() && !info.view;
    return is_plain && info.shape.rank > 1 && info.shape.rows() > 1 && is_real(info.type) &&
           info.shape.features() * size_of(info.type) % 16 != 0;
  }
  /// Records whether an operand of a call may be strided (bit 0 of `strided`), and whether it is an operand or result
  /// of a GEMM.
  constexpr void record_operand(int value, unsigned strided, bool in_gemm) {
    may_be_padded_[value] = may_be_padded_[value] && (strided & 1u) != 0;
    in_gemm_[value] = in_gemm_[value] || in_gemm;
  }

  program& p_;
  bool may_be_padded_[program::maximum_values]{};
  bool in_gemm_[program::maximum_values]{}; // whether the value is an operand or result of a GEMM
};

} // namespace detail

/// For devices with tensor cores: pads the rows of activations that are operands or results of GEMMs if the length of a
/// row is not a multiple of 16 bytes, such as logits of 50257 classes, and if every op that reads or writes them
/// accepts strided rows. Loop-carried values, accumulators, views and values with views are not padded. The shapes of
/// the values do not change, and no op reads or writes the padding. A value and the values that overwrite it in place
/// are padded together, or none of them is, for example if their shapes or types differ. Together, they need one more
/// value; in a program without capacity for it, they are not padded.
constexpr program pad_rows(program const& p) {
  program out = p;
  if (p.failure.ok()) detail::row_padding(out).run();
  return out;
}

} // namespace constrain
