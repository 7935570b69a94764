#pragma once

#include "constrain/program/program.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The values of a program that are trained parameters or depend on one.
struct trained_values {
  bool contains[program::maximum_values]{}; // by the index of the value

  /// Finds these values in `p`.
  constexpr explicit trained_values(program const& p) {
    for (int v = 0; v < p.values.size(); ++v) contains[v] = is_trainable(p.values[v].role);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto const& n : p.nodes) {
        if (n.kind != node_kind::call) continue;
        bool reads_trained = false;
        for (auto const& input : n.inputs) reads_trained = reads_trained || contains[input.value];
        if (!reads_trained) continue;
        for (auto const& output : n.outputs)
          if (!contains[output.value]) changed = contains[output.value] = true;
      }
    }
  }
};

} // namespace constrain
