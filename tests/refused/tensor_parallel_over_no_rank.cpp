// refused: parallel::tensor<ranks>: `ranks` must be at least 1; write for example parallel::tensor<2>, or
// shows: composition<parallel::tensor<0>>
#define CONSTRAIN_WITH_MPI // the rule that is tested comes first; nothing is linked
#include <constrain/policy/policies.hpp>
namespace ct = constrain;

#ifdef CORRECT
ct::policies<ct::parallel::tensor<2>> p;
#else
ct::policies<ct::parallel::tensor<0>> p; // <- here
#endif
