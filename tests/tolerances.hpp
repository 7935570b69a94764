#pragma once

/// How far a training run may be from the same run in fp32: by how much the losses after a few steps may differ, as a
/// part of what the loss decreased, or of 1 % of the loss if it decreased less. docs/compatibility.md prints the table,
/// tests/comm/pairs.cpp holds every pair of policies to it.
namespace constrain::test {

struct tolerance {
  char const* precision; // the policy
  double of_decrease;    // the largest difference, as a part of the decrease
};

inline constexpr tolerance tolerances[] = {{"fp32", 1e-4}, {"tf32", 0.02},      {"bf16", 0.02},
                                           {"fp16", 0.04}, {"pure_bf16", 0.02}, {"fp64", 1e-4}};

/// The least tolerance of optimizers that take signs (lion): the rounding of one sum can turn a sign.
inline constexpr double tolerance_of_signs = 1e-3;

} // namespace constrain::test
