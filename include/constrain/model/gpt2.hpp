#pragma once

// GPT-2, and the format in which Hugging Face stores GPT-2's weights.

#include "constrain/model/gpt2/gpt2.hpp"
#include "constrain/model/gpt2/hugging_face.hpp"
