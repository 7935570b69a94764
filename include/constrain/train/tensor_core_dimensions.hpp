#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A note on a dimension that slows tensor cores down, with the next multiple of 128 bytes and, if needed, of 16 bytes,
/// both in elements; "" for a multiple of 128 bytes. `element_bytes`: size of an element of the GEMM's operands. GEMMs
/// on tensor cores are fastest if their dimensions are multiples of 16 bytes, or multiples of 128 bytes on an A100 and
/// newer GPUs (NVIDIA, "Matrix multiplication background user's guide").
[[gnu::noinline, gnu::cold]] inline std::string dimension_note(std::int64_t extent, std::int64_t element_bytes) {
  auto const least = 16 / element_bytes, best = 128 / element_bytes;
  auto const next = [&](std::int64_t multiple) { return (extent + multiple - 1) / multiple * multiple; };
  auto const of_best = concat({best, " (next: ", next(best), ")"});
  if (extent % best == 0) return {};
  if (extent % least == 0) return concat({extent, " is not a multiple of ", of_best});
  return concat({extent, " is not a multiple of ", least, " (next: ", next(least), ") or ", of_best});
}

/// Lists dimensions of a program's GEMMs on tensor cores that are not multiples of 128 bytes, one per line: the
/// dimensions of weights, and the numbers of rows of other operands, such as activations, gradients, and weights that
/// are all-gathered from shards. `tf32`: whether fp32 GEMMs use TF32; without it, they do not use tensor cores, and
/// their dimensions are not listed. The list is empty if no dimension slows tensor cores down.
[[gnu::noinline, gnu::cold]] inline std::string tensor_core_dimensions(program const& p, bool tf32) {
  std::string text;
  auto const note = [&](std::string const& name, std::int64_t extent, dtype type) {
    if (type == dtype::f32 && !tf32) return;
    auto const advice = dimension_note(extent, size_of(type));
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
      int const owner = is_compute_copy(info.role) ? info.belongs_to : value;
      if (is_parameter(p.values[owner].role)) {
        auto const& s = info.shape;
        for (int d = 0; d < s.rank; ++d)
          note(printable(std::string(p.text(p.values[owner].name))), s.extent[d], info.type);
      } else {
        note("rows of an operand", info.shape.rows(), info.type);
      }
    }
  }
  return text;
}

} // namespace constrain::detail
