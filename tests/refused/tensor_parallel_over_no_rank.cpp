// refused: parallel::tensor<ranks>: `ranks` must be at least 1; write for example parallel::tensor<2>, or
// shows: composition<parallel::tensor<0>>
// with MPI
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::tensor<2>> p;
#else
ct::policies<ct::parallel::tensor<0>> p; // <- here
#endif
