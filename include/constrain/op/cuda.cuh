#pragma once

// The library's kernels for CUDA devices. Only the CPU has kernels for flash attention, attention with lengths,
// focal_loss, rms_norm, Adafactor, Muon, quantized states, the collectives and the other ops that exchange data between
// ranks, the gradient norm of sharded gradients, and the fused ops that the pass `fuse` inserts.

#include "constrain/op/accuracy/cuda.cuh"
#include "constrain/op/add/kernel.hpp"
#include "constrain/op/assign/kernel.hpp"
#include "constrain/op/attention/cuda.cuh"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/concatenate/kernel.hpp"
#include "constrain/op/constant/kernel.hpp"
#include "constrain/op/copy/kernel.hpp"
#include "constrain/op/cross_entropy/cuda.cuh"
#include "constrain/op/dropout/kernel.hpp"
#include "constrain/op/elementwise/kernel.hpp"
#include "constrain/op/embedding/cuda.cuh"
#include "constrain/op/gather_rows/cuda.cuh"
#include "constrain/op/gradient_norm/cuda.cuh"
#include "constrain/op/layer_norm/cuda.cuh"
#include "constrain/op/linear/cuda.cuh"
#include "constrain/op/mean/kernel.hpp"
#include "constrain/op/moving_average/kernel.hpp"
#include "constrain/op/multiply/kernel.hpp"
#include "constrain/op/position_embedding/kernel.hpp"
#include "constrain/op/reshape/kernel.hpp"
#include "constrain/op/select_token/kernel.hpp"
#include "constrain/op/slice/kernel.hpp"
#include "constrain/op/soft_cap/kernel.hpp"
#include "constrain/op/squared_error/kernel.hpp"
#include "constrain/op/stack/kernel.hpp"
#include "constrain/op/update/cuda.cuh"
#include "constrain/op/valid_first/cuda.cuh"
