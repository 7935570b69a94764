#include "variants/training.hpp"

#include <constrain/op/accuracy/cpu.hpp>

trained train_fast() { return train(); }

std::int64_t argmax_fast(float const* x, std::int64_t count) { return constrain::argmax(x, count); }
