#pragma once

#include <cstdint>

namespace constrain::test {

/// The hash of a set's weights. A change of one is a change of everybody's trainings: say in its commit why it must be,
/// and how far the weights are from those before (training.hpp measures it).
struct fingerprint_of_set {
  char const* name;
  std::uint64_t hash;
};

inline constexpr fingerprint_of_set recorded[] = {
    {"fp32, sgd", 0xec588c3e8ebdf9fc},
    {"fp32, momentum, clipping", 0x38c28693cb89ecdc},
    {"fp32, nesterov, dropout", 0x619717244b0e9ee8},
    {"fp32, adamw, clipping, dropout", 0xbbcc6db0eecbf78f},
    {"fp32, accumulate<2>, clipping, dropout", 0x27692823ec3dc8fd},
    {"fp32, checkpoint::every<2>, clipping, dropout", 0xbbcc6db0eecbf78f},
    {"fp32, attention::reference, fusion::none, clipping, dropout", 0x6b7006c3e7fd97cb},
    {"fp32, fusion::all, accumulate<2>, checkpoint::every<3>, clipping, dropout", 0x12089de0ae89ffd1},
    {"bf16, clipping, dropout", 0x5f38ea35ef9c4399},
    {"bf16, accumulate<2>, checkpoint::every<2>, clipping, dropout", 0x92dc42fa3240ff56},
    {"fp64, clipping, dropout", 0x29fb674de2dbf48a},
    {"fp64, momentum, accumulate<2>, checkpoint::every<2>, clipping, dropout, repeats in a repeat", 0xf341f271c404dffb},
    {"fp64, ddp, clipping, dropout", 0xe0687c2a2246ae46},
    {"fp64, zero<3, 4>, clipping, dropout", 0xe0687c2a2246ae46},
    {"fp64, zero<3, 2> in two groups, clipping, dropout", 0xffcf92506f45e196},
    {"bf16, zero<3, 2> in two groups, accumulate<2>, checkpoint::every<2>, clipping, dropout", 0xf412b90cc71f3732},
};

} // namespace constrain::test
