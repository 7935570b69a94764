#pragma once

// BERT for classification and for masked language modeling, and the format in which Hugging Face stores BERT's weights.

#include "constrain/model/bert/bert.hpp"
#include "constrain/model/bert/hugging_face.hpp"
