#pragma once

// An op outside of the library, with two refusals. It is included after constrain.hpp, which g++ takes compiled only as
// a program's first include.
namespace ct = constrain;

struct pool_gradient {
  struct options {
    int size = 1;
  };
  static constexpr char const* name = "pool_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in, options const& o) {
    auto s = in[0].shape;
    s.extent[1] *= o.size;
    return ct::inferred::one(in[0].type, s);
  }
};
struct pool {
  struct options {
    int size = 1;
  };
  static constexpr char const* name = "pool";

  template <ct::diagnosis d> struct not_a_sequence {
    static_assert(d.ok(), "pool: its input has `got` dimensions where `expected` are needed; apply it before ct::mean");
  };
  template <ct::diagnosis d> struct size_does_not_divide_the_tokens {
    static_assert(d.ok(),
                  "pool: the sequence of `expected` tokens is not a multiple of `got`; choose a size that divides "
                  "it");
  };
  static constexpr ct::inferred infer(ct::operand_types const& in, options const& o) {
    auto s = in[0].shape;
    if (s.rank != 3) return ct::inferred::failure<not_a_sequence>(3, s.rank);
    if (s.extent[1] % o.size != 0) return ct::inferred::failure<size_does_not_divide_the_tokens>(s.extent[1], o.size);
    s.extent[1] /= o.size;
    return ct::inferred::one(in[0].type, s);
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<pool_gradient>({b.gradient()}, {0}, {.size = b.options<pool>().size});
  }
};
