#include "variants/training.hpp"

trained train_fast() { return train(); }
