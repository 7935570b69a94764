#pragma once

// The library's one public include: the trainer, `fit`, `compare`, corpora, models, layers and policies.

#include "constrain/forward.hpp"

// Headers that hold static_asserts come first: compilers print the include path to a failed one, and so it is short.
#include "constrain/policy/composition.hpp"
#include "constrain/program/sound.hpp"
#include "constrain/run/launchers.hpp"

#include "constrain/data/json_lines.hpp"
#include "constrain/data/random.hpp"
#include "constrain/data/text.hpp"
#include "constrain/data/tokens.hpp"
#include "constrain/fit/compare.hpp"
#include "constrain/fit/fit.hpp"
#include "constrain/layer/apply.hpp"
#include "constrain/layer/repeat.hpp"
#include "constrain/model/gpt2.hpp"
#include "constrain/model/objective/causal_lm.hpp"
#include "constrain/model/objective/classification.hpp"
#include "constrain/model/task.hpp"
#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/op/mean/mean.hpp"
#include "constrain/op/multiply/multiply.hpp"
#include "constrain/op/silu/silu.hpp"
#include "constrain/policy/policies.hpp"
#include "constrain/train/explain.hpp"
#include "constrain/train/trainer.hpp"
