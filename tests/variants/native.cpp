#include "variants/training.hpp"

trained train_native() { return train(); }
