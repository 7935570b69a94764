#pragma once

#include "constrain/op/assign/assign.hpp"
#include "constrain/op/cast/cast.hpp"
#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/op/gradient_norm/chunk.hpp"
#include "constrain/program/value.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The layout of an optimizer's `step_hyperparameters` (`hyper_layout_of`). Layouts are compared by `identity`, because
/// g++ -fsanitize=undefined rejects comparisons of addresses in constant expressions.
struct hyper_layout {
  std::uint64_t identity;   // hash of the types that make the layout
  bool has_base;            // whether `base` is set
  hyper_layout const* base; // of the base optimizer, whose hyperparameters come first
};

} // namespace op

/// The argument of an optimizer's update rule, the function `optimizer::update`: gives the rule the parameter to
/// update, its gradient and its states, and appends nodes. A rule is called once for each trained parameter. For a
/// parameter inside a repeat, the nodes that the rule appends are in a loop over the iterations of the repeat, so that
/// the nodes work on one iteration's tensor at a time.
///
/// For a parameter that holds several tensors (`in_parts`), the rule is called once for each part: `parameter`,
/// `gradient` and `shape` refer to the part, and each part has separate states. The state "exp_avg" of the second part
/// is saved under "<parameter>.exp_avg.1". The rule of an optimizer with a base optimizer (a member type `base`) is
/// called once, for the full parameter, and may call `for_each_part`.
///
/// A rule computes new values with ops, as a model does, and stores them with `assign`, which changes nothing if the
/// gradient norm is not finite. No other node may write a parameter or a state, except calls to `guarded` ops, which
/// make the same check.
class update_rule {
public:
  /// A state has no name.
  template <diagnosis d> struct state_without_a_name {
    static_assert(d.ok(), "optimizer: the name of a state is empty; give the state a name, which saved runs use");
  };

  /// The initial value of a state is NaN or out of the range of its type.
  template <diagnosis d> struct state_is_out_of_range {
    static_assert(d.ok(), "optimizer: the `initial` of a state is not a number in the range of the state's type: u8 "
                          "from 0 to 255, i32 within 2147483647, f16 within 65504, other types within 1e30; give such "
                          "a number, for example 0");
  };

  /// Two states of the parameter have the same name.
  template <diagnosis d> struct state_named_twice {
    static_assert(d.ok(), "optimizer: two states of a parameter have the same name; give each state a different name, "
                          "and call ct::update_rule::average only once (optimizer::averaged also calls it)");
  };

  /// The rule adds a state with a `block`, `got`, that does not divide `expected`, which is `norm_chunk`. (Each shard
  /// of a parameter begins at a multiple of `norm_chunk`.)
  template <diagnosis d> struct block_does_not_divide_a_chunk {
    static_assert(d.ok(), "optimizer: an element of a state describes `got` elements of a parameter, but their number "
                          "must divide `expected`, so that every rank's range begins at the start of a block; give a "
                          "power of two of at most `expected` as `block`");
  };

  /// For a part of a parameter, a rule calls a function that needs the full parameter.
  template <diagnosis d> struct part_is_updated_in_place {
    static_assert(
        d.ok(), "optimizer: its rule is called for a part of a parameter, but `update_in_place`, `average` "
                "and element-wise optimizers need the full parameter; store new values with `assign`, or, "
                "in an optimizer that wraps another optimizer, declare the wrapped optimizer as a member type `base`");
  };

  /// A rule averages a parameter that is stored in 16 bits.
  template <diagnosis d> struct average_without_masters {
    static_assert(d.ok(), "optimizer: its rule averages the weights, but precision::pure_bf16 stores them in 16 bits, "
                          "so evaluation could not read the average instead; write precision::bf16, or an optimizer "
                          "without an average");
  };

  /// A rule calls `op::update_by` for an optimizer that would read the hyperparameters of another one.
  template <diagnosis d> struct hyper_of_another_optimizer {
    static_assert(d.ok(), "optimizer: its rule calls `op::update_by<O>`, but O would read other bytes as its "
                          "hyperparameters; let O be the `base` of the optimizer, the base of this base, and so on, or "
                          "have the `hyper`, `prepare` and `base` of one of them");
  };

  /// A rule assigns to a value that does not belong to its parameter.
  template <diagnosis d> struct target_of_no_assign {
    static_assert(d.ok(), "optimizer: its rule calls `assign` with a target that is not the parameter, its gradient or "
                          "one of its states; as the target, write the result of `parameter`, `gradient` or `state` of "
                          "the same ct::update_rule (for a part: called after the last `assign` to it)");
  };

  /// For the pass `update`, which makes one `update_rule` per parameter. `out`: the builder of the program. `gradient`:
  /// index of the value that holds the parameter's gradient. `scale()` and `hyper()` return `scale` and `hyper`.
  /// `layout`: the layout of the bytes of `hyper`.
  constexpr update_rule(builder& out, int gradient, ref scale, ref hyper, op::hyper_layout const* layout)
      : out_(out), gradient_(gradient), parameter_(out.program.values[gradient].belongs_to),
        scale_(scale), working_copy_{out.program.values[gradient].belongs_to, at::current}, hyper_(hyper),
        hyper_layout_(layout) {}

  /// Shape of the parameter. Inside a repeat, it is the shape of one iteration's tensor. If the parameter is sharded,
  /// it is the shape of the full tensor. If tensor parallelism divides the parameter, it is the shape of this rank's
  /// range.
  constexpr constrain::shape shape() const { return parameter().shape(); }
  /// Like `shape`, but if tensor parallelism divides the parameter, the shape over all ranks. A rule that keeps
  /// different states for small and for large tensors must use this shape, so that saved runs load with any number of
  /// ranks.
  constexpr constrain::shape full_shape() const { return out_.program.shape_of_group(info(), shape()); }
  /// The type in which the parameter is updated: the type in which it is stored (the type of its master weights, if it
  /// has any), or fp32 for a parameter stored in 16 bits.
  constexpr dtype type() const { return accumulator_of(info().type); }
  /// The parameter's role, such as role::weight.
  constexpr constrain::role role() const { return info().role; }
  /// Whether weight decay applies to the parameter. If it does, a rule that calls this function must apply the decay,
  /// because `explain` lists the parameter as decaying.
  constexpr bool decays() const { return out_.program.values[parameter_].decays = constrain::decays(role()); }

  /// The parameter, or, if it is stored in 16 bits, its fp32 copy, which is rounded into the parameter after the
  /// update.
  constexpr value parameter() const { return part_index_ < 0 ? value{out_, working_copy_} : new_parameter_; }
  /// The gradient of the batch's loss with respect to the parameter, before clipping. With precision::fp16, the
  /// gradient is multiplied by the loss scale.
  constexpr value gradient() const { return part_index_ < 0 ? value{out_, {gradient_, at::current}} : new_gradient_; }
  /// [norm, scale] in fp64. Rules multiply the gradient by the second element, the scale, which clips by the norm of
  /// all gradients, undoes the loss scale, and is 0 if the norm is not finite. With `optimizer::in_backward`, the norm
  /// is the norm of this gradient only, and nothing is clipped.
  constexpr value scale() const { return {out_, scale_}; }
  /// The hyperparameters of this step: bytes that hold an `op::step_hyperparameters` of the optimizer.
  constexpr value hyper() const { return {out_, hyper_}; }

  /// Adds a state of the parameter, and returns it: a tensor of shape `s` and type `type` that keeps its value from
  /// step to step and is saved. `initial`: the value of all elements before the first step. `block`: number of elements
  /// of the parameter that one element of the state describes, a power of two of at most 1024 (`norm_chunk`), so that
  /// each shard of the parameter begins at the start of a block. Refused: any other `block`, a name that is empty or
  /// not UTF-8, the name of another state of the parameter or part, an `initial` out of range
  /// (`state_is_out_of_range`), a shape with an extent below 1 or too many elements, and more names or values than the
  /// program can hold.
  constexpr value state(std::string_view name, constrain::shape s, dtype type, double initial = 0, int block = 1) {
    auto& program = out_.program;
    if (name.empty()) program.fail(diagnosis_with<state_without_a_name>(info().line));
    if (!is_initial(initial, type)) program.fail(diagnosis_with<state_is_out_of_range>(info().line));
    for (auto const& existing : program.values)
      if (existing.role == role::state && existing.belongs_to == parameter_ && is_named(existing, name))
        program.fail(diagnosis_with<state_named_twice>(info().line));
    bool const divides = block >= 1 && norm_chunk % block == 0;
    if (!divides) program.fail(diagnosis_with<block_does_not_divide_a_chunk>(info().line, 0, norm_chunk, block));
    value_info state;
    state.block = divides ? block : 1;
    state.type = type;
    state.role = role::state;
    state.shape = s;
    state.axes = info().axes;
    state.belongs_to = parameter_;
    state.name = name_of_state(name);
    state.initial.constant = initial;
    state.line = info().line;
    return {out_, {out_.add_checked(state), at::current}};
  }
  /// Adds a state of type `type()`, initially 0.
  constexpr value state(std::string_view name, constrain::shape s) { return state(name, s, type()); }
  /// Adds a state with the parameter's shape and of type `type()`, initially 0.
  constexpr value state(std::string_view name) { return state(name, shape()); }

  /// If the gradient norm is finite, stores `source` in `target`, converted to the type of `target`. `target`: the
  /// result of `parameter`, `gradient` or `state`; any other value is refused. `target` and `source` must have the same
  /// shape.
  constexpr void assign(value target, value source) {
    if (!out_.program.failure.ok()) return; // after a failure, `emit_all` returns no values
    if (part_index_ >= 0 && target.where() == new_parameter_.where()) return replace(new_parameter_, source);
    if (part_index_ >= 0 && target.where() == new_gradient_.where()) return replace(new_gradient_, source);
    if (!is_target(target.where())) return out_.program.fail(diagnosis_with<target_of_no_assign>(info().line));
    out_.call<op::assign>({source.where(), scale_}, {target.where()}, {.to = target.type()}, info().line);
  }

  /// Calls f(update_rule&) for each part of the parameter, then stores the values that the calls assign to the parts.
  /// If the parameter has no parts or this object already refers to a part, calls f(*this).
  template <class function> constexpr void for_each_part(function const& f) {
    if (part_index_ >= 0 || info().parts < 0) return f(*this);
    auto const parts = out_.program.part_lists[info().parts];
    node new_parameters, new_gradients;
    bool stores_parameter = false, stores_gradient = false;
    std::int64_t begin = 0;
    for (int k = 0; k < parts.extents.size(); ++k) {
      auto const slice_part = [&](value full) {
        return slice(full, parts.dimension, begin, parts.extents[k], info().line);
      };
      value const parameter_part = slice_part(parameter()), gradient_part = slice_part(gradient());
      update_rule part = *this;
      part.part_index_ = k;
      part.new_parameter_ = parameter_part, part.new_gradient_ = gradient_part;
      f(part);
      stores_parameter = stores_parameter || part.new_parameter_.where() != parameter_part.where();
      stores_gradient = stores_gradient || part.new_gradient_.where() != gradient_part.where();
      new_parameters.inputs.push_back(part.new_parameter_.where());
      new_gradients.inputs.push_back(part.new_gradient_.where());
      begin += parts.extents[k];
    }
    if (stores_parameter) assign(parameter(), join_parts(new_parameters, parts.dimension));
    if (stores_gradient) assign(gradient(), join_parts(new_gradients, parts.dimension));
  }

  /// Refuses the program if this object refers to a part of a parameter.
  constexpr void needs_full_parameter() {
    if (part_index_ >= 0) out_.program.fail(diagnosis_with<part_is_updated_in_place>(info().line));
  }

  /// Refuses the program unless `hyper()` holds hyperparameters with this layout, at its beginning.
  constexpr void needs_hyper(op::hyper_layout const* layout) {
    auto const* held = hyper_layout_;
    while (held->identity != layout->identity && held->has_base) held = held->base;
    if (held->identity != layout->identity) out_.program.fail(diagnosis_with<hyper_of_another_optimizer>(info().line));
  }

  /// Adds a state "average" with the parameter's shape and type, and returns it. It is initially a copy of the
  /// parameter; the rule must update it. `evaluate`, `predict` and `generate` read this state instead of the parameter.
  /// Refused: a part of a parameter, a parameter stored in 16 bits, and a second call for the same parameter.
  constexpr value average() {
    needs_full_parameter();
    if (is_narrow(info().type)) out_.program.fail(diagnosis_with<average_without_masters>(info().line));
    auto const average = state("average");
    auto& info = out_.program.values[average.where().value];
    info.is_average = info.resets_with_parameter = true;
    return average;
  }

  /// Appends a call to a guarded op that updates parameters or states in place. `inputs` and `outputs`: the operands,
  /// in the kernel's order. Refused: an object that refers to a part of a parameter.
  template <class op>
  constexpr void update_in_place(std::initializer_list<value> inputs, std::initializer_list<value> outputs,
                                 options_of<op> const& options = {}) {
    static_assert(info_of<op>.guarded,
                  "update_rule: an op that writes a parameter or a state must be `guarded`; declare `static constexpr "
                  "bool guarded = true` in the op, and let its kernels write nothing if the scale is 0");
    needs_full_parameter();
    node n;
    n.attributes = pack(options);
    n.line = info().line;
    for (auto const& input : inputs) out_.add_input(n, input.where());
    for (auto const& output : outputs) out_.add_output(n, output.where());
    out_.append(info_of<op>, n);
  }

  /// For the pass `update`: makes `parameter` return `copy`, a copy of the parameter.
  constexpr void work_on(ref copy) { working_copy_ = copy; }

  /// For the library's optimizers that update element by element: the builder of the program.
  constexpr builder& owner() const { return out_; }

private:
  constexpr value_info const& info() const { return out_.program.values[parameter_]; }

  /// Whether `assign` can store a tensor in `target`: in the full parameter, its gradient or one of its states.
  constexpr bool is_target(ref target) const {
    if (part_index_ < 0 && (target == working_copy_ || target == ref{gradient_, at::current})) return true;
    if (!target) return false;
    auto const& info = out_.program.values[target.value];
    return info.role == role::state && info.belongs_to == parameter_;
  }

  /// Whether the elements of a state of this type can have this initial value.
  static constexpr bool is_initial(double x, dtype type) {
    double const maximum = type == dtype::u8    ? 255
                           : type == dtype::i32 ? 2147483647
                           : type == dtype::f16 ? 65504
                                                : 1e30;
    return x >= (type == dtype::u8 ? 0 : -maximum) && x <= maximum;
  }
  /// Whether `state` has this name; for a part, the name followed by '.' and the index of the part.
  constexpr bool is_named(value_info const& state, std::string_view name) const {
    auto const text = out_.program.text(state.name);
    if (part_index_ < 0) return text == name;
    return text.size() == name.size() + 2 && text.substr(0, name.size()) == name && text[name.size()] == '.' &&
           text.back() == part_digit();
  }
  /// The index of the part as a digit: a parameter has at most 8 parts (`part_list::maximum`).
  constexpr char part_digit() const { return static_cast<char>('0' + part_index_); }

  /// Replaces a part's tensor with new values, which `for_each_part` stores. Copies the source if its type differs, if
  /// a later node may overwrite it (it is not an activation), or if it is the part's parameter or gradient itself:
  /// `assign` recognizes its target by `where()`, so the part's parameter and gradient must not share one value.
  constexpr void replace(value& target, value source) {
    bool const is_fresh = source.info().role == role::activation && source.type() == target.type() &&
                          source.where() != new_parameter_.where() && source.where() != new_gradient_.where();
    target = is_fresh ? source : emit<op::cast>({source}, {.to = target.type()}, info().line);
  }

  /// Concatenates the parts in `n.inputs`.
  constexpr value join_parts(node n, int dimension) {
    n.attributes = pack(op::concatenate::options{.dimension = dimension});
    n.line = info().line;
    return {out_, out_.append(info_of<op::concatenate>, n).outputs[0]};
  }

  /// The state's name in the program's name pool, where all states with the same name share one entry.
  constexpr name_ref name_of_state(std::string_view name) {
    auto& program = out_.program;
    for (int v = program.values.size() - 1; v >= 0; --v)
      if (program.values[v].role == role::state && is_named(program.values[v], name)) return program.values[v].name;
    out_.check_name(name, info().line);
    char const digit = part_digit();
    auto const added = part_index_ < 0 ? program.names.add("", name) : program.names.add(name, {&digit, 1});
    if (added.length == 0) program.fail({why::program_too_large, 0, 0, name_pool::capacity, name_pool::capacity + 1});
    return added;
  }

  builder& out_;
  int gradient_, parameter_;
  ref scale_, working_copy_, hyper_;
  op::hyper_layout const* hyper_layout_;
  int part_index_ = -1;                // index of the part; -1: the full parameter
  value new_parameter_, new_gradient_; // tensors of the part: first slices, later the values that the rule assigns
};

/// Whether an optimizer has a rule, which emits nodes for each parameter, instead of a function that updates one
/// element.
template <class optimizer> concept has_update_rule = requires(update_rule& u) { optimizer::update(u); };

} // namespace constrain
