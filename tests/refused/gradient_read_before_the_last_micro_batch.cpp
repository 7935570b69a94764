// refused: an operation reads or overwrites a gradient, or reads the loss, before the last node that adds to it
#define CONSTRAIN_WITH_MPI // nothing is linked
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/model/task.hpp>
#include <constrain/pass/pipeline.hpp>
#include <constrain/policy/policies.hpp>
namespace ct = constrain;
