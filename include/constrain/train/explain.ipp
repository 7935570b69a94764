#pragma once

#include "constrain/train/explain.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE std::string bytes_text(bytes b) {
  if (b >= mebibytes(1)) return formatted("%.1f MiB", b.mebibytes());
  return formatted("%.1f KiB", static_cast<double>(b.count()) / 1024);
}

CONSTRAIN_INLINE std::string grouped(std::int64_t n) {
  auto const digits = std::to_string(n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    bool const separate = i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0;
    if (separate) text += ',';
    text += digits[i];
  }
  return text;
}

CONSTRAIN_INLINE std::string memory_table(memory_plan const& m) {
  std::string text;
  for_each_part(m, [&](char const* name, bytes b) {
    if (b > bytes(0))
      text += formatted("  %-18s %14s bytes %12s\n", name, grouped(b.count()).c_str(), bytes_text(b).c_str());
  });
  return text;
}

CONSTRAIN_INLINE bool is_decayed(program const& step, std::string_view parameter) {
  for (auto const& n : step.nodes)
    if (n.kind == node_kind::call && std::string_view(n.op->name) == "update" &&
        step.text(step.values[n.outputs[0].value].name) == parameter)
      return n.attributes.integer[0] != 0;
  return false;
}

} // namespace constrain::detail
