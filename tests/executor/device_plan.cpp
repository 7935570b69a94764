// Scratch memory and merged calls: from what a kernel asks for, through the plan, to the call.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace ct = constrain;

namespace {

/// y[i] = x[last - i], in place: the kernel needs a copy of x.
struct reverse {
  struct options {
    int copies = 1; // that the kernel makes
  };
  static constexpr char const* name = "reverse";
  static constexpr unsigned in_place = 0b1;
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<reverse>({b.gradient()}, {0}, {.copies = 1}); }
};

bool scratch_is_aligned = true;

/// A device with launches, for which calls are merged.
struct gpu {
  static constexpr std::int64_t alignment = 128;
  static constexpr bool has_launches = true;
};

/// Such a device, on which the options of a call limit the number of calls that are merged with it.
struct choosy_gpu : gpu {};

/// Such a device, on which merged calls have one input.
struct sharing_gpu : gpu {};

} // namespace

template <> struct ct::kernel<reverse, ct::cpu> {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in, ct::operand_extents const&,
                                             reverse::options const& o) {
    return {.scratch = o.copies * in[0].count * ct::size_of(in[0].type), .launches = 5, .merged = 3};
  }
  template <class real> static void run(ct::call_of<reverse> const& c, ct::tensor<real const> x, ct::tensor<real> y) {
    scratch_is_aligned = scratch_is_aligned && reinterpret_cast<std::uintptr_t>(c.scratch) % 64 == 0;
    auto* const copy = c.scratch_as<real>();
    for (int k = 0; k < c.options.copies; ++k)
      for (std::int64_t i = 0; i < x.count; ++i) copy[k * x.count + i] = x[i];
    for (std::int64_t i = 0; i < x.count; ++i) y[i] = copy[c.options.copies * x.count - 1 - i];
  }
};
template <> struct ct::kernel<reverse, gpu> {
  static constexpr ct::kernel_needs needs_of(auto const& in, auto const& out) {
    return {.scratch = in[0].rows() * 4 * static_cast<std::int64_t>(out.size()), .launches = 2, .merged = 3};
  }
};
template <> struct ct::kernel<reverse, choosy_gpu> {
  static constexpr ct::kernel_needs needs_of(auto const&, auto const&, reverse::options const& o) {
    return {.scratch = 4, .launches = 2, .merged = o.copies};
  }
};
template <> struct ct::kernel<reverse, sharing_gpu> {
  static constexpr ct::kernel_needs needs_of(auto const&, auto const&) {
    return {.scratch = 4, .launches = 2, .merged = 3, .shared_inputs = 0b1};
  }
};

namespace {

/// Kernels for `names_needs_of`, which are never called.
struct without_needs {};
struct needs_overloaded {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in) { return {.scratch = in[0].count}; }
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in, auto const&) { return needs_of(in); }
};
struct needs_of_one : private needs_overloaded {
  static constexpr ct::kernel_needs needs_of(auto const&) { return {}; }
};
struct private_needs {
private:
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const&, ct::operand_extents const&) { return {}; }
};
struct inherited_needs : needs_overloaded {};
struct final_without_needs final {};
struct final_with_needs final {
  static constexpr ct::kernel_needs needs_of(auto const&, auto const&) { return {}; }
};
struct final_with_needs_of_one final {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const&) { return {}; }
};
template <class kernel> constexpr bool named = ct::detail::names_needs_of<kernel, reverse::options>();
template <class kernel>
constexpr bool callable =
    ct::detail::needs_without_options<kernel> || ct::detail::needs_with_options<kernel, reverse::options>;
static_assert(!named<without_needs> && !named<final_without_needs>);
static_assert(named<needs_overloaded> && named<inherited_needs> && named<final_with_needs>);
static_assert(callable<needs_overloaded> && callable<inherited_needs> && callable<final_with_needs>);
static_assert(named<needs_of_one> && named<private_needs> && named<final_with_needs_of_one>);
static_assert(!callable<needs_of_one> && !callable<private_needs> && !callable<final_with_needs_of_one>);
static_assert(callable<ct::kernel<reverse, ct::cpu>> && callable<ct::kernel<reverse, gpu>>);

/// A model whose step does the same with and without its ops.
template <int times> struct reversed {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 5});
    for (int i = 0; i < times; ++i) x = ct::emit<reverse>({x}, {.copies = 1 + i % 3});
    return ct::linear("head", x, 31);
  }
};
template <int times>
using task = ct::task<reversed<times>{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 7}>;
template <int times> using trainer = ct::trainer<task<times>>;

constexpr std::int64_t tensor = 2 * 7 * 5;

// The largest call decides: three copies. On the CPU every call counts as one launch, whatever the kernel says.
using with = trainer<8>;
static_assert(with::entries::scratch == 3 * tensor * 4);
static_assert(with::memory.peak.count() == (with::entries::buffers_end + 63) / 64 * 64 + 3 * tensor * 4);
static_assert(with::memory.workspace.count() - trainer<0>::memory.workspace.count() ==
              with::memory.peak.count() - with::entries::buffers_end);
static_assert(with::kernel_launches == trainer<0>::kernel_launches + 16);

// Without such kernels there is nothing to pay.
static_assert(trainer<0>::entries::scratch == 0 && trainer<0>::memory.peak.count() == trainer<0>::entries::buffers_end);
static_assert(!ct::device_plan_of<trainer<0>::entries::step, ct::cpu>.has_needs);

/// A model with eight reversals of one value, of which none needs another one. `keeps`: whether the value is needed
/// after them; if not, the last reversal writes over it. `copies`: of each reversal.
template <bool keeps, int... copies> struct fan {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 5});
    ct::value const y[] = {ct::emit<reverse>({x}, {.copies = copies})...};
    auto sum = keeps ? x + y[0] : y[0] + y[0];
    for (auto const& each : y) sum = sum + each;
    return ct::linear("head", sum, 31);
  }
};
template <class model>
using trainer_of = ct::trainer<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 7}>>;
template <bool keeps> using fan_trainer = trainer_of<fan<keeps, 1, 1, 1, 1, 1, 1, 1, 1>>;

/// The launches of the calls to `reverse` on a device that merges.
template <class entry, class device = gpu> constexpr std::int64_t reversal_launches() {
  std::int64_t launches = 0;
  for (auto const& step : ct::device_plan_of<entry, device>.steps)
    if (step.bytes > 0 || step.more_tensors_follow) launches += step.launches;
  return launches;
}
// Calls that read what the call before them writes are not merged.
static_assert(reversal_launches<with::entries::predict>() == 8 * 2);
static_assert(ct::device_plan_of<with::entries::predict, gpu>.scratch == 2 * 7 * 4);
static_assert(reversal_launches<fan_trainer<true>::entries::predict>() == 3 * 2);
// Here the last call writes over what the calls before it read.
static_assert(reversal_launches<fan_trainer<false>::entries::predict>() == 4 * 2);
// Every one of the merged calls limits their number: [3], [1], [3, 2], [2, 3], [3, 3, 3].
using choosy = trainer_of<fan<true, 3, 1, 3, 2, 2, 3, 3, 3, 3>>::entries::predict;
static_assert(reversal_launches<choosy, choosy_gpu>() == 5 * 2);

/// A model with four independent reversals of two values, in turn.
struct two_fans {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 5});
    auto const z = ct::embedding("other", tokens, {.vocabulary = 31, .width = 5});
    ct::value const y[] = {ct::emit<reverse>({x}), ct::emit<reverse>({z}), ct::emit<reverse>({x}),
                           ct::emit<reverse>({z})};
    return ct::linear("head", x + z + y[0] + y[1] + y[2] + y[3], 31);
  }
};
// Calls with other inputs are merged only if the launch has an input for each of them.
static_assert(reversal_launches<fan_trainer<true>::entries::predict, sharing_gpu>() == 3 * 2);
static_assert(reversal_launches<trainer_of<two_fans>::entries::predict>() == 2 * 2);
static_assert(reversal_launches<trainer_of<two_fans>::entries::predict, sharing_gpu>() == 4 * 2);

/// Two calls that add to one value. Only a kernel that knows how to merge them may do both at the same time.
struct two_sums {
  ct::operand operands[2]{};
};
constexpr bool may_merge_sums(bool may_add) {
  two_sums const p{};
  ct::detail::byte_range const reach[] = {{0, 4}, {0, 4}};
  ct::step first{}, second{};
  first.outputs = second.outputs = 1, first.accumulates = second.accumulates = 1, second.first_operand = 1;
  return ct::detail::independent(p, first, second, reach, may_add);
}
static_assert(may_merge_sums(true) && !may_merge_sums(false));

/// Whether one launch may sum into `values[0]` and `values[1]`.
constexpr bool share_a_sum(int const (&values)[2]) {
  two_sums p{};
  for (int k = 0; k < 2; ++k) p.operands[k].value = values[k];
  ct::step first{}, second{};
  first.outputs = second.outputs = 1, second.first_operand = 1;
  return ct::detail::share_operands(p, first, second, {.merges_sums = true});
}
static_assert(share_a_sum({3, 3}) && !share_a_sum({3, 4}));

/// The calls that a run of a plan makes, as a device gets them.
std::vector<ct::call> calls;
void record(ct::call const& c, ct::bound_operand const*) { calls.push_back(c); }

} // namespace

TEST_CASE("a kernel gets the scratch memory that it asks for") {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(with::batch_tokens)), labels(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(7 * i % 31);
    labels[i] = static_cast<std::int32_t>(7 * (i + 1) % 31);
  }
  for (bool checked : {false, true}) {
    with t({}, {.checked = checked, .measure_memory = !checked});
    trainer<0> u;
    for (int i = 0; i < 5; ++i) CHECK(t.step(t.batch(tokens, labels)).loss == u.step(u.batch(tokens, labels)).loss);
    CHECK(t.predict(tokens).logits == u.predict(tokens).logits);
    if (!checked) CHECK(t.used_bytes() == with::memory.peak);
  }
  CHECK(scratch_is_aligned);
}

TEST_CASE("consecutive independent calls to a kernel are merged, each with scratch memory of its own") {
  using predict = fan_trainer<true>::entries::predict;
  constexpr auto const& on_device = ct::device_plan_of<predict, gpu>;
  static_assert(on_device.scratch == 2 * 128 + 2 * 7 * 4); // three calls, each a multiple of 128 from the first
  std::vector<ct::launcher> const launchers(static_cast<std::size_t>(predict::value.steps_size), &record);
  auto view = ct::view_of<predict, ct::cpu>();
  view.launchers = launchers.data();
  view.device_steps = on_device.steps;
  std::vector<std::byte> scratch(1);
  calls.clear();
  ct::execute(view, nullptr, {}, ct::no_hooks{}, scratch.data());
  REQUIRE(calls.size() == 1 + 8 + 9 + 1);
  std::int64_t launches = 0;
  for (auto const& step : on_device.steps) launches += step.launches;
  CHECK(launches == 1 + 3 * 2 + 9 + 1);
  for (int i = 0; i < 8; ++i) { // after the embedding: 3, 3 and 2
    CAPTURE(i);
    auto const& c = calls[static_cast<std::size_t>(i) + 1];
    CHECK(c.merged_before == i % 3);
    CHECK(c.more_tensors_follow == (i % 3 != 2 && i != 7));
    CHECK(c.scratch - scratch.data() == i % 3 * 128);
  }
  calls.clear();
  struct hooks : ct::no_hooks {};
  ct::execute(view, nullptr, {}, hooks{}, scratch.data());
  for (auto const& c : calls) CHECK((c.merged_before == 0 && !c.more_tensors_follow));
}
