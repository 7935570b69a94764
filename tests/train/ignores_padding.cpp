#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

// Whether the padding of a batch adds something to the loss depends on the objective.

namespace ct = constrain;
using ct::test::sentence;

namespace {

struct three_classes {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 3); }
};

constexpr ct::port_spec first_class{.name = "first", .each = ct::per::row};
constexpr ct::port_spec second_class{.name = "second", .each = ct::per::row};

struct with_penalty {
  static constexpr ct::port_spec labels[] = {first_class};
  constexpr ct::value operator()(ct::value logits, ct::value classes) const {
    return ct::cross_entropy(logits, classes) + ct::squared_error(logits, logits + logits);
  }
};
struct two_classes {
  static constexpr ct::port_spec labels[] = {first_class, second_class};
  constexpr ct::value operator()(ct::value logits, ct::value first, ct::value second) const {
    return ct::cross_entropy(logits, first) +
           ct::cross_entropy(ct::reshape(logits, ct::shape(2, 1, 3)), ct::reshape(second, ct::shape(2, 1)));
  }
};
// The padding has row 0 of the table.
struct row_of_a_table {
  static constexpr ct::port_spec labels[] = {first_class, second_class};
  constexpr ct::value operator()(ct::value logits, ct::value first, ct::value second) const {
    auto const row = ct::embedding("table", second, {.vocabulary = 4, .width = 3});
    return ct::cross_entropy(logits + row, first) + ct::squared_error(row, row + row);
  }
};
struct without_labels {
  static constexpr ct::port_spec labels[] = {first_class};
  constexpr ct::value operator()(ct::value logits, ct::value) const { return ct::squared_error(logits, logits); }
};

struct bigram {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 3, .width = 2}), 3);
  }
};

template <class objective, int sequences = 2>
using task_of = ct::task<three_classes{}, objective, ct::micro_batch{.sequences = sequences}>;

template <class objective>
constexpr bool ignores_padding = ct::detail::ignores_padding(task_of<objective>::build(ct::entry::evaluate,
                                                                                       ct::dtype::f32));
static_assert(ignores_padding<ct::classification>);
static_assert(ignores_padding<ct::focal_classification<>>);
static_assert(ignores_padding<two_classes>);
static_assert(!ignores_padding<with_penalty>);
static_assert(!ignores_padding<row_of_a_table>);
static_assert(!ignores_padding<without_labels>);

} // namespace

TEST_CASE("if padding would count, evaluate does not pad, and tail::pad is refused") {
  std::vector<float> const x{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> const classes{0, 1, 2};
  ct::data::examples const all(x, classes);
  auto const loss_of = [&]<int sequences>(std::integral_constant<int, sequences>) {
    return ct::inference<task_of<with_penalty, sequences>, ct::precision::fp64>({.seed = 3}).evaluate(all).loss;
  };
  ct::trainer<task_of<with_penalty>, ct::precision::fp64> t({}, {.seed = 3});
  auto const loss = loss_of(std::integral_constant<int, 3>());
  CHECK(loss_of(std::integral_constant<int, 8>()) == doctest::Approx(loss).epsilon(1e-12));
  CHECK(t.evaluate(all).loss == doctest::Approx(loss).epsilon(1e-12));
  CHECK(sentence([&] { t.batches(all, ct::data::tail::pad); }) ==
        "batches: tail::pad ignores the labels of the padding, but the task has floating-point labels, labels that an "
        "op indexes by, or a loss that reads the logits in an op without integer labels, so the padding would count; "
        "use tail::carry or tail::drop");
}

TEST_CASE("if padding would count, evaluate does not advise it for incomplete micro-batches") {
  auto const said = [](auto objective) {
    std::vector<std::int32_t> const three{0, 1, 2};
    ct::inference<ct::task<bigram{}, decltype(objective), ct::micro_batch{.sequences = 2, .tokens = 2}>> i;
    return sentence([&] { i.evaluate(three, three); });
  };
  CHECK(said(with_penalty{}) ==
        "evaluate: the array of inputs has 3 elements, but must have a positive multiple of the "
        "micro-batch's 4; pass complete micro-batches");
  CHECK(said(ct::classification{})
            .ends_with("; pass complete micro-batches, the last one padded with any token and "
                       "ignored labels"));
}
