// refused: parallel::zero<stage, ranks>: `stage` must be 1, 2 or 3; write for example parallel::zero<3, ranks>, or
// shows: composition<parallel::zero<4, 2>>
// with MPI
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::zero<1, 2>> p;
#else
ct::policies<ct::parallel::zero<4, 2>> p; // <- here
#endif
