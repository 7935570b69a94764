#pragma once

#include "programs.hpp"

#include <constrain/op/concatenate/concatenate.hpp>
#include <constrain/op/reshape/reshape.hpp>

#include <random>
#include <vector>

namespace constrain::test {

/// A model drawn at random: layers, repeats in repeats, values from outside, shared and tied weights.
class random_model {
public:
  explicit random_model(unsigned seed) : random_(seed) {}

  program build(dtype real = dtype::f32) {
    builder b;
    b.real = real;
    ref const tokens{b.new_value({dtype::i32, shape(2, 3)}, role::input, 0), at::current};
    b.program.set_port({port_kind::input, {.name = "tokens"}, tokens});
    table_ = parameter(value{b, tokens}, "table", shape(7, 4), role::embedding);
    auto x = embedding(table_, {b, tokens});
    outside_.push_back(x);
    x = layers(x, 0, 2 + pick(4));
    x = pick(2) == 0 ? linear(x, table_) : linear(name("head"), x, 7);
    b.program.set_result("logits", x.where());
    ref const labels{b.new_value({dtype::i32, shape(2, 3)}, role::input, 0), at::current};
    b.program.set_port({port_kind::label, {.name = "labels"}, labels});
    auto const loss = cross_entropy(x, {b, labels});
    // As in ct::task, the loss is copied to the output that the host reads.
    value_info result;
    result.type = dtype::f64;
    result.role = role::result;
    result.accumulates = true;
    ref const observed{b.program.add_value(result), at::current};
    b.program.set_result("loss", observed);
    node n;
    n.inputs.push_back(loss.where());
    n.outputs.push_back(observed);
    b.append(info_of<op::copy>, n);
    return b.program;
  }

private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string name(char const* kind) { return kind + std::to_string(++names_); }

  value layer(value x, int depth) {
    switch (pick(depth < 2 ? 13 : 10)) {
    case 0: return linear(name("linear"), x, 4, {.bias = pick(2) == 0});
    case 1: return x + silu(linear(name("mlp"), x, 4));
    case 2: return layer_norm(name("norm"), x);
    case 3: return x * outside_[static_cast<std::size_t>(pick(static_cast<int>(outside_.size())))];
    case 4: return dropout(x) + outside_[static_cast<std::size_t>(pick(static_cast<int>(outside_.size())))];
    case 5: return gelu(x) + x;
    case 6: return concatenate({silu(slice(x, 0, 0, 1)), slice(x, 0, 1, 1)}, 0) + concatenate({slice(x, 0, 0, 2)}, 0);
    case 7: return concatenate({gelu(slice(x, 1, 2, 1)), slice(x, 1, 0, 2)}, 1);
    case 8: return concatenate({slice(slice(x, 2, 1, 3), 2, 1, 2), slice(x, 2, 0, 2)}, 2) * x;
    case 9: return reshape(silu(linear(name("reshaped"), reshape(x, shape(3, 2, 4)), 4)), shape(2, 3, 4));
    default: break;
    }
    auto const size = outside_.size();
    auto const y = repeat(name("repeat"), 1 + pick(4), x, [&](value y) {
      outside_.push_back(y);
      auto const z = layers(y, depth + 1, 1 + pick(3));
      return pick(3) == 0 ? z + y : z;
    });
    outside_.resize(size);
    return y;
  }

  value layers(value x, int depth, int count) {
    for (int i = 0; i < count; ++i) {
      x = layer(x, depth);
      if (pick(3) == 0) outside_.push_back(x);
    }
    return x;
  }

  std::mt19937 random_;
  int names_ = 0;
  value table_;
  std::vector<value> outside_;
};

} // namespace constrain::test
