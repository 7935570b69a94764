// refused: parallel::zero<stage, ranks>, parallel::tensor<ranks>: `ranks`, or the product of both in parallel::mesh, is
// shows: composition<parallel::mesh<parallel::zero<3, 64>, parallel::tensor<32>>>
// with MPI
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::mesh<ct::parallel::zero<3, 64>, ct::parallel::tensor<16>>> p;
#else
ct::policies<ct::parallel::mesh<ct::parallel::zero<3, 64>, ct::parallel::tensor<32>>> p; // <- here
#endif
