#pragma once

#include <cstdint>

namespace constrain::test {

/// The hash of a set's weights. A changed hash changes every user's training: explain in the commit why it must change,
/// and by how much the weights differ (training.hpp measures this).
struct fingerprint_of_set {
  char const* name;
  std::uint64_t hash;
};

inline constexpr fingerprint_of_set recorded[] = {
    {"fp32, sgd", 0xec588c3e8ebdf9fc},
    {"fp32, momentum, clipping", 0x38c28693cb89ecdc},
    {"fp32, nesterov, dropout", 0xb42eccc9779745a2},
    {"fp32, adamw, clipping, dropout", 0x2d7fcc04bc04a3c1},
    {"fp32, accumulate<2>, clipping, dropout", 0x8a2c2f9474980c5c},
    {"fp32, checkpoint::every<2>, clipping, dropout", 0x2d7fcc04bc04a3c1},
    {"fp32, attention::reference, fusion::none, clipping, dropout", 0x24d35ae3156db411},
    {"fp32, fusion::all, accumulate<2>, checkpoint::every<3>, clipping, dropout", 0xcc5c4f4c4c5c2640},
    {"bf16, clipping, dropout", 0x35bfd014f1e2eafd},
    {"bf16, accumulate<2>, checkpoint::every<2>, clipping, dropout", 0x4f0d8fe7b0a81792},
    {"fp64, clipping, dropout", 0x982f78a4f9a8c841},
    {"fp64, momentum, accumulate<2>, checkpoint::every<2>, clipping, dropout, repeats in a repeat", 0xc0a17d6959d38ea7},
    {"fp64, ddp, clipping, dropout", 0x1dcc491af327c6f9},
    {"fp64, zero<3, 4>, clipping, dropout", 0x1dcc491af327c6f9},
    {"fp64, zero<3, 2> in two groups, clipping, dropout", 0x1dcc491af327c6f9},
    {"bf16, zero<3, 2> in two groups, accumulate<2>, checkpoint::every<2>, clipping, dropout", 0x8e7c156fe8b2c0cc},
};

} // namespace constrain::test
