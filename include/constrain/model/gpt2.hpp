#pragma once

// The model, and how others store its weights.

#include "constrain/model/gpt2/gpt2.hpp"
#include "constrain/model/gpt2/hugging_face.hpp"
