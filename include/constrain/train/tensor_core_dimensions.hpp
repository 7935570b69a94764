#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A note on a dimension that slows tensor cores down, with the next multiple of 64 and, if needed, of 8; "" for a
/// multiple of 64. GEMMs with 16-bit operands are fastest if their dimensions are multiples of 8 elements, or multiples
/// of 64 on an A100 and newer GPUs (NVIDIA, "Matrix multiplication background user's guide").
[[gnu::noinline, gnu::cold]] inline std::string dimension_note(std::int64_t extent) {
  auto const next = [&](std::int64_t multiple) { return (extent + multiple - 1) / multiple * multiple; };
  if (extent % 64 == 0) return {};
  if (extent % 8 == 0) return concat({extent, " is not a multiple of 64 (next: ", next(64), ")"});
  return concat({extent, " is not a multiple of 8 (next: ", next(8), ") or 64 (next: ", next(64), ")"});
}

/// Lists GEMM dimensions of a program that are not multiples of 64, one per line: the dimensions of weights, and the
/// numbers of rows of other operands, such as activations, gradients, and weights that are all-gathered from shards.
/// The list is empty if all these dimensions are multiples of 64.
[[gnu::noinline, gnu::cold]] inline std::string tensor_core_dimensions(program const& p) {
  std::string text;
  auto const note = [&](std::string const& name, std::int64_t extent) {
    auto const advice = dimension_note(extent);
    if (advice.empty()) return;
    auto const line = formatted("  %-34s %s\n", name.c_str(), advice.c_str());
    if (text.find(line) == std::string::npos) text += line; // an operand may be used often
  };
  for (auto const& n : p.nodes) {
    if (n.kind != node_kind::call || n.op->gemm_operands == 0) continue;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if ((n.op->gemm_operands >> k & 1u) == 0) continue;
      auto const value = n.inputs[k].value;
      auto const& info = p.values[value];
      int const owner = info.role == role::compute_copy ? info.belongs_to : value;
      if (is_parameter(p.values[owner].role)) {
        auto const& s = info.shape;
        for (int d = 0; d < s.rank; ++d) note(printable(std::string(p.text(p.values[owner].name))), s.extent[d]);
      } else {
        note("rows of an operand", info.shape.rows());
      }
    }
  }
  return text;
}

} // namespace constrain::detail
