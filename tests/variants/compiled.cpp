#include "variants/training.hpp"

static_assert(CONSTRAIN_DEFINITIONS == 0); // the flags are the companion's

trained train_compiled(char const* resume, char const* save) { return train(resume, save); }
