#pragma once

// Llama, Mistral, Qwen2 and Qwen3, and the format in which Hugging Face stores their weights.

#include "constrain/model/llama/hugging_face.hpp"
#include "constrain/model/llama/llama.hpp"
