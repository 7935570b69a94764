#pragma once

// The library's one public include: the trainer, `fit`, `compare`, corpora, models, layers and policies.

#include "constrain/forward.hpp"

// The headers whose static_asserts check a trainer's policies, model and kernels come first: compilers print the chain
// of includes that leads to a failed static_assert, and this order keeps the chain short.
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
#include "constrain/op/add/add.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"
#include "constrain/op/dropout/dropout.hpp"
#include "constrain/op/elementwise/elementwise.hpp"
#include "constrain/op/embedding/embedding.hpp"
#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/op/gelu/gelu.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/op/mean/mean.hpp"
#include "constrain/op/multiply/multiply.hpp"
#include "constrain/op/position_embedding/position_embedding.hpp"
#include "constrain/op/silu/silu.hpp"
#include "constrain/policy/policies.hpp"
#include "constrain/program/is_op.hpp"
#include "constrain/train/explain.hpp"
#include "constrain/train/schedule.hpp"
#include "constrain/train/trainer.hpp"
