#pragma once

// The part of the CUDA runtime that the library uses, on the host: with this folder in front of the include path a
// C++ compiler compiles the .cuh files, and every kernel runs on this machine. It is as strict as CUDA's contracts, and
// draws what they leave open: the order of threads between barriers, of blocks, of streams. A broken contract ends the
// program after one sentence. It proves indices, barriers, arithmetic, orders and calls; only a GPU proves the rest.

#include "stand_in/block.hpp"          // the threads of a block, __syncthreads, shared memory
#include "stand_in/copy.hpp"           // cudaMemcpy, cudaMalloc, pinned memory
#include "stand_in/device.hpp"         // devices and their properties, errors, what is said of kernels
#include "stand_in/event.hpp"          // orders between streams
#include "stand_in/failing_calls.hpp"  // lets the n-th call fail
#include "stand_in/graph.hpp"          // capture and replay
#include "stand_in/handle.hpp"         // what is alive
#include "stand_in/launch.hpp"         // cudaLaunchKernelEx and the limits of launches
#include "stand_in/memory.hpp"         // device memory, which the host cannot touch
#include "stand_in/operand_bounds.hpp" // a call's own bytes, under AddressSanitizer
#include "stand_in/stream.hpp"         // streams
#include "stand_in/work.hpp"           // what the device does, in an order that is drawn
