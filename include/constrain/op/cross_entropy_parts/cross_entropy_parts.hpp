#pragma once

#include "constrain/program/backward.hpp"
#include "constrain/program/builder.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

struct cross_entropy;

/// Options of ops that read logits whose classes are divided over the ranks of a tensor group. Each rank's logits have
/// c columns, where c is the same on all ranks. Rank r has the classes [r * c, (r + 1) * c). If `classes` < `ranks` *
/// c, the last rank has fewer classes, but at least one, and its other columns are unused.
struct class_range_options {
  std::int64_t classes = 1; // number of classes of all ranks together
  std::int64_t ranks = 1;   // number of ranks in the group
};

/// The node `n`, with the class_range_options of its logits (input 0) as options. `out`: the builder of n's program, in
/// which the logits are already divided.
constexpr node with_class_range(builder const& out, node n) {
  auto const& logits = out.program.values[n.inputs[0].value];
  std::int64_t const ranks = out.program.tensor_ranks;
  n.attributes = pack(class_range_options{.classes = logits.shape.features() * ranks - logits.unused, .ranks = ranks});
  return n;
}

/// The gradient of op::cross_entropy_parts: like cross_entropy_gradient, with the same inputs, but for this rank's
/// range of the classes, and 0 in unused columns.
struct cross_entropy_parts_gradient {
  using options = class_range_options;
  static constexpr char const* name = "cross_entropy_parts_gradient";
  static constexpr unsigned in_place = 0b10;
  static constexpr char const* layouts = "-, ..., ..., ..., - -> ...";
  static constexpr unsigned label_inputs = 0b100;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};

/// op::cross_entropy, with the same inputs, for logits whose classes are divided over the ranks of a tensor group
/// (vocab-parallel cross-entropy in Megatron-LM). Outputs 0 to 2 are the outputs of op::cross_entropy, and the same on
/// every rank. For each row, every rank sends three values: the maximum of its logits, the sum of exp(logit - maximum)
/// (exp(logit), if the maximum is -infinity), and the logit of the label, or 0 if the rank does not have this logit
/// (Shoeybi et al. 2019, section 3). The values are combined in rank order. Output 3 is the exchange buffer, [ranks,
/// rows, 3].
struct cross_entropy_parts {
  using written_as = cross_entropy;
  using options = class_range_options;
  static constexpr char const* name = "cross_entropy_parts";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b1100;
  static constexpr char const* layouts = "..., ..., - -> -, ...";
  static constexpr unsigned label_inputs = 0b10;
  static constexpr bool exchanges = true;
  static constexpr bool same_data = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const rows = in[0].shape.rows();
    auto const real = accumulator_of(in[0].type);
    return inferred::one(dtype::f64, {})
        .and_also(real, shape(rows))
        .and_also(dtype::f64, shape(rows))
        .and_also(real, shape(o.ranks, rows, 3));
  }
  static constexpr void gradient(backward& b) {
    b.emit<cross_entropy_parts_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1), b.input(2)}, {0},
                                         b.options<cross_entropy_parts>());
  }
};

} // namespace constrain::op
