// refused: parallel::mesh<data, layers>: `data` must be parallel::ddp or parallel::zero<stage, ranks>, and `layers`
// shows: composition<parallel::mesh<parallel::tensor<2>, parallel::ddp>>
// with MPI
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::mesh<ct::parallel::ddp, ct::parallel::tensor<2>>> p;
#else
ct::policies<ct::parallel::mesh<ct::parallel::tensor<2>, ct::parallel::ddp>> p; // <- here
#endif
