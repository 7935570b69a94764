#pragma once

#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/op/constant/constant.hpp"
#include "constrain/op/gather_rows/gather_rows.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/op/reshape/reshape.hpp"
#include "constrain/op/stack/stack.hpp"
#include "constrain/op/valid_first/valid_first.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/nest.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The number of rows of logits to store at a time, out of `rows`: the largest divisor of `rows` that is a multiple of
/// 16 and between 7/80 and 1/8 of `rows`. If none is found, the number is a tenth of `rows`, rounded down to a multiple
/// of 16, but at least 16 and at most `rows`. With 128 or more rows, at most an eighth of the logits is stored at a
/// time. Larger chunks take less time, because each chunk reads and writes the full gradient of the weight.
constexpr std::int64_t logit_rows(std::int64_t rows) {
  int tries = 512; // compilers limit the loop iterations of a constant expression
  for (auto chunk = rows / 8 / 16 * 16; chunk >= 16 && chunk * 80 >= rows * 7 && tries > 0; chunk -= 16, --tries)
    if (rows % chunk == 0) return chunk;
  return std::min(std::max<std::int64_t>(rows / 10 / 16 * 16, 16), rows);
}

namespace detail {

/// Whether `r` is a plain activation of at least `smallest_bytes`, with one writer and more rows than one chunk.
constexpr bool is_large_activation(program const& p, ref r, std::int64_t smallest_bytes) {
  auto const& info = p.values[r.value];
  bool const is_plain = info.role == role::activation && !info.accumulates && !info.is_loop_carried();
  if (!is_plain || info.shape.rank == 0 || info.shape.elements() * size_of(info.type) < smallest_bytes) return false;
  return logit_rows(info.shape.rows()) < info.shape.rows() && writer_of(p, r) >= 0;
}

/// Replaces the head (the node that computes a large value), and the nodes that read this value or another large value
/// of its shape, such as its gradient, with the row loop, a loop over chunks of rows.
class row_looping {
public:
  /// `head`: the node that computes the large value.
  constexpr row_looping(program const& p, int head, std::int64_t smallest_bytes)
      : p_(p), nest_(p), head_(head), smallest_bytes_(smallest_bytes) {}

  /// Finds the nodes of the row loop. Returns whether they compute a loss and can process a chunk of rows at a time.
  constexpr bool applies() {
    auto const& n = p_.nodes[head_];
    if ((n.op->layouts.outputs.rows & 1u) == 0 || !accepts_row_chunks(n.outputs[0])) return false;
    add(head_);
    for (int i = head_ + 1; i < p_.nodes.size(); ++i) // readers of a value come after its writer
      if (reads_large(p_.nodes[i])) add(i);
    if (!computes_loss_ || !nodes_can_move()) return false;
    if (ref const labels = p_.nth(port_kind::label, 0).where; can_leave_out_rows(labels)) labels_ = labels;
    return true;
  }

  constexpr program run() const;

private:
  constexpr ref head_output() const { return p_.nodes[head_].outputs[0]; }
  constexpr std::int64_t rows() const { return p_.values[head_output().value].shape.rows(); }

  constexpr bool reads_large(node const& n) const {
    for (auto const& input : n.inputs)
      if (large_[input.value]) return true;
    return false;
  }

  /// Whether node i is in the same loop as the head, and can process chunks of rows of `r`.
  constexpr bool accepts_rows(int i, ref r) const {
    auto const& n = p_.nodes[i];
    if (nest_.parent[i] != nest_.parent[head_]) return false;
    for (int k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k] == r && (n.op->layouts.inputs.rows >> k & 1u) == 0) return false;
    for (int j = 0; j < n.outputs.size(); ++j)
      if (((n.op->layouts.outputs.rows | n.op->accumulating) >> j & 1u) == 0) return false;
    return true;
  }
  /// Whether all nodes that read `r` can process a chunk of its rows at a time.
  constexpr bool accepts_row_chunks(ref r) const {
    for (int i = 0; i < p_.nodes.size(); ++i)
      if (p_.nodes[i].inputs.contains(r) && !accepts_rows(i, r)) return false;
    return true;
  }

  /// Adds node i to the row loop.
  constexpr void add(int i) {
    auto const& n = p_.nodes[i];
    in_loop_[i] = true;
    last_ = i > last_ ? i : last_;
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = p_.values[n.outputs[j].value];
      bool const by_rows = (n.op->layouts.outputs.rows >> j & 1u) != 0;
      bool const has_head_shape = info.shape == p_.values[head_output().value].shape;
      if (by_rows && has_head_shape && is_large_activation(p_, n.outputs[j], smallest_bytes_) &&
          accepts_row_chunks(n.outputs[j]))
        large_[n.outputs[j].value] = true;
      if (!by_rows && info.shape.elements() == 1 && info.role != role::gradient) computes_loss_ = true;
      written_[n.outputs[j].value] = by_rows ? written::by_rows : written::as_sum;
    }
  }

  /// Decides, for each other node between the first and the last node of the row loop, whether it runs before or after
  /// the loop. Returns false if a node can do neither, or if a node of the loop cannot read an input inside the loop.
  constexpr bool nodes_can_move() {
    for (int i = head_; i <= last_; ++i) {
      auto const& n = p_.nodes[i];
      if (n.kind != node_kind::call || nest_.parent[i] != nest_.parent[head_]) return false;
      if (in_loop_[i]) {
        for (int k = 0; k < n.inputs.size(); ++k)
          if (!can_read(n, k)) return false;
        continue;
      }
      for (auto const& input : n.inputs) after_loop_[i] = after_loop_[i] || written_[input.value] != written::outside;
      for (auto const& output : n.outputs) {
        if (!after_loop_[i] && written_[output.value] != written::outside) return false;
        if (after_loop_[i]) written_[output.value] = written::after;
      }
      // The value of a constant does not depend on the loss, so the constant can be computed before the loop.
      if (after_loop_[i] && calls(n, info_of<op::constant_like>)) written_[n.outputs[0].value] = written::constant;
    }
    return true;
  }
  /// Whether a node of the row loop can read its input k inside the loop.
  constexpr bool can_read(node const& n, int k) const {
    auto const writer = written_[n.inputs[k].value];
    if ((n.op->layouts.inputs.rows >> k & 1u) != 0) return writer == written::outside || writer == written::by_rows;
    return writer == written::outside || (writer == written::constant && input_like(n.inputs[k]).value >= 0);
  }

  /// An input of the row loop with the type and shape of `constant`, written outside of the loop; empty: none. It
  /// replaces the loss as the input of op::constant_like, so that the constant can be computed before the loop.
  constexpr ref input_like(ref constant) const {
    auto const& constant_info = p_.values[constant.value];
    for (int i = head_; i <= last_; ++i)
      for (auto const& input : p_.nodes[i].inputs) {
        auto const& info = p_.values[input.value];
        if (in_loop_[i] && written_[input.value] == written::outside && info.type == constant_info.type &&
            info.shape == constant_info.shape && info.axes.size() <= constant_info.axes.size())
          return input;
      }
    return {};
  }

  /// Whether the row loop writes the value by rows and a node outside of the loop reads it.
  constexpr bool is_joined(int value) const {
    for (int i = 0; i < p_.nodes.size() && written_[value] == written::by_rows; ++i)
      if (!in_loop_[i] && p_.nodes[i].inputs.contains({value})) return true;
    return false;
  }

  /// Whether the results of the row loop stay the same without the rows whose label is ignored: these rows add nothing
  /// to sums, and are 0 in all values that other nodes read. (A node that reads the gradient of the large value, but no
  /// label, is linear in this gradient: a row of zeros gives zeros.) `labels`: the labels that the trainer counts.
  constexpr bool can_leave_out_rows(ref labels) const {
    if (!labels || !p_.nth(port_kind::label, 0).ignorable || p_.values[labels.value].shape.elements() != rows())
      return false;
    bool is_zero[program::maximum_values]{}; // the value is 0 in rows whose label is ignored
    for (int i = head_ + 1; i <= last_; ++i) {
      auto const& n = p_.nodes[i];
      if (!in_loop_[i]) continue;
      bool ignores = n.op->label_inputs != 0 && n.op->accumulating >> 1 == 0; // only output 0 must ignore rows
      for (int k = 0; k < n.inputs.size(); ++k) {
        bool const labelled = (n.op->label_inputs >> k & 1u) != 0;
        if (labelled && n.inputs[k] != labels) return false;
        ignores = ignores || is_zero[n.inputs[k].value];
      }
      if (!ignores) return false;
      is_zero[n.outputs[0].value] = true;
    }
    for (int v = 0; v < p_.values.size(); ++v) {
      auto const& info = p_.values[v];
      bool const is_plain = info.role == role::activation && !info.accumulates && !info.is_loop_carried();
      if (is_joined(v) && !(is_plain && is_zero[v])) return false;
    }
    return true;
  }

  /// The shape of `rows` rows of `r`, which has one row, or one element, for each row of the large value.
  constexpr shape rows_of(ref r, std::int64_t rows) const {
    auto const& s = p_.values[r.value].shape;
    auto const& large = p_.values[head_output().value].shape;
    bool const of_elements = s == large.without(large.rank - 1) || s.rank == 1;
    return of_elements ? shape(rows) : shape(rows, s.features());
  }

  /// By index of a value: the ref that replaces it in the row loop; empty: the value is not replaced.
  struct body {
    ref refs[program::maximum_values]{};
    constexpr body() { // g++ 12 would zero-fill an aggregate, and a zero is not an empty reference
      for (auto& r : refs) r = ref();
    }
  };
  /// Reshapes each input that the loop reads by rows: to (rows, features) or, if it has one element per row, to (rows).
  constexpr body flatten(builder& out) const;
  /// Appends the loop body, which processes `extent` rows in each of `iterations` iterations, from row `begin` on.
  /// `order`: the row indices in the order in which the loop processes them; empty: 0, 1, 2, ...
  constexpr body append_body(builder& out, body const& flat, ref order, std::int64_t begin, std::int64_t extent,
                             std::int64_t iterations) const;
  /// Adds the axis of the loop of `append_body`, with the same arguments (see `labelled_rows`), and returns its index.
  constexpr int add_rows_axis(builder& out, ref order, std::int64_t begin, std::int64_t extent,
                              std::int64_t iterations) const;
  constexpr void append_loop(builder& out) const;
  /// Appends nodes that join the chunks of `r` into the full value.
  constexpr void join(builder& out, ref r, body const& chunks, body const& remainder, std::int64_t iterations) const;

  /// Which node writes a value. `by_rows`, `as_sum`: one of the loop, row by row or as a sum; `after`: one after the
  /// loop; `constant`: one before the loop that writes a constant; `outside`: any other, or none (inputs).
  enum class written : unsigned char { outside, by_rows, as_sum, after, constant };

  program const& p_;
  nest nest_;
  int head_, last_ = 0;
  std::int64_t smallest_bytes_;
  ref labels_;                                 // the labels by which the loop leaves out rows; empty: none
  bool computes_loss_ = false;                 // a node of the loop computes a scalar sum over all rows
  bool in_loop_[program::maximum_nodes]{};     // node i is in the loop
  bool after_loop_[program::maximum_nodes]{};  // node i runs after the loop or, if it writes a constant, before
  bool large_[program::maximum_values]{};      // a value of the large value's shape; all its readers are in the loop
  written written_[program::maximum_values]{}; // which nodes write the value
};

constexpr program row_looping::run() const {
  auto out = without_nodes(p_);
  rewrite_nodes(out, p_, 0, p_.nodes.size(), [&](builder&, node const& n, int i) {
    if (!in_loop_[i] && !after_loop_[i]) out.program.add_node(n);
    if (i != last_) return;
    append_loop(out);
    for (int k = head_; k < last_; ++k) {
      bool const is_moved = after_loop_[k] && written_[p_.nodes[k].outputs[0].value] != written::constant;
      if (is_moved) out.program.add_node(p_.nodes[k]);
    }
  });
  return out.program;
}

constexpr void row_looping::append_loop(builder& out) const {
  for (int k = head_; k < last_; ++k) {
    node n = p_.nodes[k];
    if (!after_loop_[k] || written_[n.outputs[0].value] != written::constant) continue;
    n.inputs[0] = input_like(n.outputs[0]);
    out.program.add_node(n);
  }
  for (int v = 0; v < p_.values.size(); ++v)
    if (written_[v] == written::as_sum) out.program.values[v].accumulates = true;
  auto const flat = flatten(out);
  ref order;
  if (labels_) order = out.call<op::valid_first>({flat.refs[labels_.value]}).outputs[0];
  for (int v = 0; order && v < p_.values.size(); ++v)
    if (is_joined(v)) out.program.values[v].accumulates = true;
  auto const chunk = logit_rows(rows()), iterations = rows() / chunk, remainder_rows = rows() % chunk;
  body chunks, remainder;
  if (iterations > 1) out.open(add_rows_axis(out, order, 0, chunk, iterations), false);
  chunks = append_body(out, flat, order, 0, chunk, iterations);
  if (iterations > 1) out.close();
  if (remainder_rows > 0) {
    if (order) out.open(add_rows_axis(out, order, iterations * chunk, remainder_rows, 1), false);
    remainder = append_body(out, flat, order, iterations * chunk, remainder_rows, 1);
    if (order) out.close();
  }
  for (int v = 0; !order && v < p_.values.size(); ++v)
    if (is_joined(v)) join(out, {v}, chunks, remainder, iterations);
}

constexpr int row_looping::add_rows_axis(builder& out, ref order, std::int64_t begin, std::int64_t extent,
                                         std::int64_t iterations) const {
  axis_info axis{.name = out.program.names.add("", "rows"), .extent = iterations};
  if (order) axis.rows = {begin, extent};
  return out.program.add_axis(axis);
}

constexpr row_looping::body row_looping::flatten(builder& out) const {
  body flat;
  for (int i = head_; i <= last_; ++i)
    for (int k = 0; in_loop_[i] && k < p_.nodes[i].inputs.size(); ++k) {
      ref const r = p_.nodes[i].inputs[k];
      bool const by_rows = (p_.nodes[i].op->layouts.inputs.rows >> k & 1u) != 0;
      if (!by_rows || written_[r.value] == written::by_rows || flat.refs[r.value]) continue;
      auto const s = rows_of(r, rows());
      flat.refs[r.value] = s == p_.values[r.value].shape ? r : out.call<op::reshape>({r}, {}, {.to = s}).outputs[0];
    }
  return flat;
}

constexpr row_looping::body row_looping::append_body(builder& out, body const& flat, ref order, std::int64_t begin,
                                                     std::int64_t extent, std::int64_t iterations) const {
  body result;
  auto const slice_of = [&](ref full) {
    return out.call<op::slice>({full}, {}, {.begin = begin, .extent = extent, .iterations = iterations}).outputs[0];
  };
  ref const rows = order ? slice_of(order) : order;
  for (int v = 0; v < p_.values.size(); ++v)
    if (ref const full = flat.refs[v])
      result.refs[v] = order ? out.call<op::gather_rows>({full, rows}).outputs[0] : slice_of(full);
  for (int i = head_; i <= last_; ++i) {
    if (!in_loop_[i]) continue;
    node n = p_.nodes[i];
    for (int k = 0; k < n.inputs.size(); ++k)
      if (ref const chunk = result.refs[n.inputs[k].value]; chunk && (n.op->layouts.inputs.rows >> k & 1u) != 0)
        n.inputs[k] = chunk;
    for (int j = 0; j < n.outputs.size(); ++j)
      if ((n.op->layouts.outputs.rows >> j & 1u) != 0) n.outputs[j] = {};
    out.called_from = n.called_from;
    auto const appended = out.append(*n.op, n);
    for (int j = 0; j < n.outputs.size(); ++j)
      if (!n.outputs[j]) result.refs[p_.nodes[i].outputs[j].value] = appended.outputs[j];
  }
  out.called_from = 0;
  for (int v = 0; order && v < p_.values.size(); ++v)
    if (is_joined(v)) out.call<op::scatter_rows>({result.refs[v], rows}, {{v}}, {.to = p_.values[v].shape});
  return result;
}

constexpr void row_looping::join(builder& out, ref r, body const& chunks, body const& remainder,
                                 std::int64_t iterations) const {
  ref full = chunks.refs[r.value];
  if (iterations > 1) full = out.call<op::stack>({full}, {}, {.iterations = iterations}).outputs[0];
  if (ref const last_rows = remainder.refs[r.value]) full = out.call<op::concatenate>({full, last_rows}).outputs[0];
  out.call<op::reshape>({full}, {r}, {.to = p_.values[r.value].shape});
}

} // namespace detail

/// Replaces the head (the linear layer that computes the logits), the loss and their gradients with a loop over chunks
/// of rows, so that only `logit_rows` rows of logits are stored at a time (Hsu et al. 2024, Liger Kernel). Sums over
/// the rows, such as the loss and the gradient of the weight, are accumulated chunk by chunk, in order. The program
/// changes only if the logits take at least `smallest_bytes` and have more than 16 rows, and all ops that read them
/// draw no random numbers and declare that they work row by row (`op_info::layouts`).
///
/// If all these ops ignore rows without a valid label (`op_info::label_inputs`), and read the labels that the trainer
/// counts, the loop processes rows with a valid label first: an iteration gathers its rows and scatters their gradients
/// back. The other rows have the gradient 0. The loop runs only as many iterations as the valid labels of the
/// micro-batch need, but at least one (`labelled_rows`); in a CUDA graph, all iterations run. If all labels are valid,
/// the rows keep their order, and the results are the same as without gathering, bit for bit.
constexpr program loop_over_rows(program const& p, std::int64_t smallest_bytes) {
  if (!p.failure.ok()) return p;
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (!calls(n, info_of<op::linear>) || !detail::is_large_activation(p, n.outputs[0], smallest_bytes)) continue;
    // A head whose input is a slice of rows counts as being in a loop over rows already.
    int const source = detail::writer_of(p, n.inputs[0]);
    bool const sliced = source >= 0 && calls(p.nodes[source], info_of<op::slice>);
    if (sliced && unpack<op::slice::options>(p.nodes[source].attributes).dimension == 0) continue;
    if (detail::row_looping loop(p, i, smallest_bytes); loop.applies()) return loop.run();
  }
  return p;
}

} // namespace constrain
