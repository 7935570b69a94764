#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/model/objective/masked_lm.hpp>
#include <constrain/model/task.hpp>
#include <constrain/op/embedding/embedding.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/op/slice/slice.hpp>

// Tasks that are refused, with the numbers of their sentences. The sentences are tested in tests/refused/.

using namespace constrain;

namespace {

template <class task> constexpr diagnosis refusal_of_step() { return task::build(entry::step, dtype::f32).failure; }
template <auto model, class objective = causal_lm, micro_batch batch = micro_batch{.sequences = 2, .tokens = 3}>
constexpr diagnosis refused = refusal_of_step<task<model, objective, batch>>();

struct tagger {
  constexpr value operator()(value tokens) const {
    return linear("head", embedding("token", tokens, {.vocabulary = 5, .width = 4}), 5);
  }
};
struct of_two : tagger {
  constexpr value operator()(value tokens, value) const { return tagger::operator()(tokens); }
};
struct with_inputs_of_one_name : of_two {
  static constexpr port_spec inputs[] = {{.name = "tokens"}, {.name = "tokens"}};
};
struct with_a_result_of_ids {
  constexpr value operator()(value tokens) const { return tokens; }
};
struct not_constexpr {
  value operator()(value tokens) const { return tagger()(tokens); }
};
struct with_nine_labels {
  static constexpr port_spec labels[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"},
                                         {.name = "f"}, {.name = "g"}, {.name = "h"}, {.name = "i"}};
  constexpr value operator()(value logits, value, value, value, value, value, value, value, value) const {
    return logits;
  }
};
struct with_labels_of_an_object : causal_lm {
  port_spec labels[1] = {{.name = "labels", .each = per::row}};
};
struct with_fewer_tokens {
  constexpr value operator()(value tokens) const { return slice(tagger()(tokens), 1, 0, 2); }
};
struct of_rows {
  constexpr value operator()(value logits, value) const { return logits; }
};

static_assert(refused<tagger{}>.ok());
static_assert(refusal_of_step<detail::no_task>() == diagnosis_with<refusals::trainer_argument_is_not_a_task>());
static_assert(refused<5> == diagnosis_with<refusals::model_is_not_a_function>());
static_assert(refused<of_two{}> == diagnosis_with<refusals::inputs_do_not_fit_the_model>(0, 0, 0, 1));
static_assert(refused<with_inputs_of_one_name{}> == diagnosis_with<refusals::port_is_invalid>());
static_assert(refused<tagger{}, with_nine_labels> == diagnosis_with<refusals::port_is_invalid>());
static_assert(refused<tagger{}, with_labels_of_an_object> == diagnosis_with<refusals::port_is_invalid>());
static_assert(refused<tagger{}, tagger> == diagnosis_with<refusals::objective_is_not_a_function>());
static_assert(refused<not_constexpr{}> == diagnosis_with<refusals::model_is_not_constant>());
static_assert(refused<tagger{}, causal_lm, micro_batch{.sequences = 2}> ==
              diagnosis_with<refusals::micro_batch_is_empty>(0, 0, 2, 0));
static_assert(refused<tagger{}, of_rows> == diagnosis_with<refusals::loss_is_not_a_scalar>(0, 0, 1, 2 * 3 * 5));
static_assert(refused<with_fewer_tokens{}> == diagnosis_with<causal_lm::logits_are_not_per_token>(0, 0, 3, 2));
static_assert(refused<with_fewer_tokens{}, masked_lm> ==
              diagnosis_with<masked_lm::logits_are_not_per_token>(0, 0, 3, 2));
static_assert(refused<with_a_result_of_ids{}, of_rows>.refusal == refusal_with<op::integers_instead_of_floats>());

} // namespace
