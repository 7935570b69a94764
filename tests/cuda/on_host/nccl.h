#pragma once

// The part of NCCL that the library uses, over MPI: one process per rank, which plays its device. It is as strict as
// NCCL's contract for non-blocking communicators, and draws what that leaves open: which calls NCCL takes at once. A
// broken contract, such as ranks that make different calls, ends the program after one sentence. It proves calls,
// orders and results; only several GPUs prove that NCCL itself does as it says.

#include "cuda_runtime.h"
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1 // MPI's bindings for C++, which nobody needs
#endif
#include "stand_in/nccl_calls.hpp"
