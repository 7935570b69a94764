#pragma once

#include "constrain/base/error.hpp"
#include "constrain/program/shape.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What one optimizer step tells.
struct step_result {
  double loss = 0;             // mean over the batch's valid labels, before the update
  double gradient_norm = 0;    // of all gradients together, before clipping
  std::int64_t tokens = 0;     // valid labels
  bool skipped = false;        // a gradient was not finite: nothing was changed
  std::string_view not_finite; // the first parameter whose gradient is not
};

/// What an evaluation tells, weighted by tokens.
struct evaluation {
  double loss = 0;         // mean over all valid labels
  double perplexity = 0;   // exp(loss)
  double accuracy = 0;     // the share of labels that have the largest logit
  std::int64_t tokens = 0; // valid labels
};

namespace detail {

/// The means of sums over labels. Throws `error` where there was none.
[[gnu::noinline]] inline evaluation mean_of(evaluation sum) {
  if (sum.tokens == 0) throw error("evaluate: every label is ignored, so there is no loss; pass at least one label");
  sum.loss /= static_cast<double>(sum.tokens);
  sum.accuracy /= static_cast<double>(sum.tokens);
  sum.perplexity = std::exp(sum.loss);
  return sum;
}

} // namespace detail

/// The logits of one micro-batch.
template <class real> struct prediction {
  std::vector<real> logits; // row-major
  constrain::shape shape;   // [sequences, tokens, vocabulary], or [sequences, classes]
};

} // namespace constrain
