#pragma once

#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/copy/copy.hpp"
#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// How much one forward and backward pass takes at a time.
struct micro_batch {
  int sequences = 1; // per micro-batch
  int tokens = 0;    // of a sequence; 0: the model's context
};

/// Refuses a micro-batch that holds nothing.
template <std::int64_t sequences, std::int64_t tokens> struct micro_batch_is_whole {
  static_assert(sequences >= 1 && tokens >= 1,
                "task: a micro-batch needs sequences and tokens; write ct::micro_batch{.sequences = 8, .tokens = 32} "
                "(tokens may be left out where the model has a `context`)");
  static constexpr bool value = true;
};

/// What a trainer's plan consists of: one program for each thing that it does.
enum class entry { step, evaluate, predict, generate };

/// A model (a function on values: tokens [sequences, tokens] -> logits [..., classes]), an objective (a type whose
/// function on logits and labels gives the loss) and the micro-batch.
template <auto model, class objective_, micro_batch batch> struct task {
  using objective = objective_;
  static constexpr auto architecture = model;

  static constexpr std::int64_t said_tokens = [] {
    if constexpr (requires { model.context; }) return batch.tokens == 0 ? model.context : batch.tokens;
    else return batch.tokens;
  }();
  static_assert(micro_batch_is_whole<batch.sequences, said_tokens>::value);
  // At least 1, so that where a sentence has been said it is the only one.
  static constexpr std::int64_t sequences = batch.sequences < 1 ? 1 : batch.sequences;
  static constexpr std::int64_t tokens = said_tokens < 1 ? 1 : said_tokens;

  /// The forward program of an entry, with parameters and activations of type `real`.
  static constexpr program build(entry e, dtype real) {
    builder b;
    b.real = real;
    auto const rows = e == entry::generate ? 1 : sequences;
    ref const tokens_in{b.new_value({dtype::i32, shape(rows, tokens)}, role::input, 0), at::here};
    b.program.tokens = tokens_in;
    auto const logits = model(value{b, tokens_in});
    b.program.logits = logits.where();
    if (e == entry::predict || e == entry::generate) {
      b.program.logits = observe(logits, b.new_value({logits.type(), logits.shape()}, role::result, 0));
      return b.program;
    }
    auto const label_shape = logits.shape().rank < 1 ? shape{} : logits.shape().without(logits.shape().rank - 1);
    value const labels{b, {b.new_value({dtype::i32, label_shape}, role::input, 0), at::here}};
    b.program.labels = labels.where();
    auto const loss = objective{}(logits, labels);
    if (loss.shape().elements() != 1) b.program.fail({why::loss_is_not_a_scalar, 0, 0, 1, loss.shape().elements()});
    b.program.loss = observe(loss, b.new_value({loss.type(), loss.shape()}, role::result, 0));
    b.program.values[b.program.loss.value].accumulates = true;
    b.program.values[b.program.loss.value].axes = {};
    if (e == entry::evaluate) {
      b.program.correct = emit<op::correct_predictions>({logits, labels}, {}, 0).where();
      b.program.values[b.program.correct.value].role = role::result;
    }
    return b.program;
  }

private:
  /// Copies a value to where the host reads it.
  static constexpr ref observe(value v, int result) {
    node n;
    n.inputs.push_back(v.where());
    n.outputs.push_back({result, at::here});
    static_assert(sizeof(detail::named<op::copy>) > 0);
    v.owner().append(info_of<op::copy>, n);
    return {result, at::here};
  }
};

} // namespace constrain
