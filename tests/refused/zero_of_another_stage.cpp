// refused: parallel::zero<stage, ranks>: only stage 3 is implemented; write parallel::zero<3, ranks> or parallel::ddp
// shows: composition<parallel::zero<1, 2>>
#define CONSTRAIN_WITH_MPI // the rule that is tested comes first; nothing is linked
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::zero<3, 2>> p;
#else
ct::policies<ct::parallel::zero<1, 2>> p; // <- here
#endif
