#include <constrain/constrain.hpp>

static_assert(CONSTRAIN_DEFINITIONS == 0); // the static library has them
