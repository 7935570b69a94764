#include "variants/training.hpp"

#if defined(__AVX2__)
static_assert(CONSTRAIN_DEFINITIONS == 1); // the companion is compiled for another instruction set
#endif

trained train_compiled_native(char const* resume, char const* save) { return train(resume, save); }
