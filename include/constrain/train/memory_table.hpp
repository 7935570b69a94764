#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/base/function_ref.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/pass/cost.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Calls f(name, bytes) for every part of a memory plan, for the bytes that parts share, and for the peak. `name`: the
/// part's name in the table.
[[gnu::noinline, gnu::cold]] inline void for_each_part(memory_plan const& m, function_ref<void(char const*, bytes)> f) {
  f("weights", m.weights), f("master weights", m.master_weights), f("gradients", m.gradients);
  f("optimizer state", m.optimizer_state), f("activations", m.activations), f("workspace", m.workspace);
  f("communication", m.communication), f("offloaded", m.offloaded);
  f("minus shared", m.shared), f("peak", m.peak);
}

/// The non-empty parts of a memory plan, the bytes that they share and the peak, as text: one line each.
[[gnu::noinline, gnu::cold]] inline std::string memory_table(memory_plan const& m) {
  std::string text;
  for_each_part(m, [&](char const* name, bytes b) {
    if (b > bytes(0))
      text += formatted("  %-18s %14s bytes %12s\n", name, grouped(b.count()).c_str(), bytes_text(b).c_str());
  });
  return text;
}

} // namespace constrain::detail
