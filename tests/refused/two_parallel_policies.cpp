// refused: policies: more than one policy parallel::... is given; keep one, or combine two, as in
// shows: composition<parallel::ddp, parallel::tensor<2>>
// with MPI
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::mesh<ct::parallel::ddp, ct::parallel::tensor<2>>> p;
#else
ct::policies<ct::parallel::ddp, ct::parallel::tensor<2>> p; // <- here
#endif
