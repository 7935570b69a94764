#include <constrain/device/kernel.hpp>
#include <constrain/op/attention/attention.hpp>
#include <constrain/op/cast/cast.hpp>
#include <constrain/op/collective/collective.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <type_traits>

// Options keep their values and types through the form in which nodes store them.

using namespace constrain;

namespace {

enum class mode : std::uint8_t { plain, wide = 200 };
struct every_kind {
  int count = 1;
  std::int64_t large = 2;
  bool flag = true;
  mode how = mode::plain;
  double real = 0.5;
  float small = 0.25f;
  friend constexpr bool operator==(every_kind const&, every_kind const&) = default;
};
struct with_shape {
  bool flag = true;
  constrain::shape extents;
  double real = 2;
  friend constexpr bool operator==(with_shape const&, with_shape const&) = default;
};
struct of_one {
  double real = 0;
  friend constexpr bool operator==(of_one const&, of_one const&) = default;
};
template <class options> constexpr bool comes_back(options const& o) { return unpack<options>(pack(o)) == o; }

static_assert(comes_back(every_kind{}) && comes_back(with_shape{}) && comes_back(of_one{}));
static_assert(comes_back(every_kind{.count = -7,
                                    .large = std::numeric_limits<std::int64_t>::min(),
                                    .flag = false,
                                    .how = mode::wide,
                                    .real = -1e-300,
                                    .small = -1e-30f}));
static_assert(comes_back(with_shape{.flag = false, .extents = shape(2, 3, 4, 5), .real = -0.0}));
static_assert(comes_back(with_shape{.extents = shape(7)}));
static_assert(unpack<with_shape>(pack(with_shape{.extents = shape(7)})).extents.rank == 1);
// Extents below 1 come back too, so that the shape keeps its dimensions until it is refused.
static_assert(comes_back(with_shape{.extents = shape(0, 3)}) && comes_back(with_shape{.extents = shape(2, 0, -4)}));
// Equal options are equal when packed, different ones are not.
static_assert(pack(of_one{1}) == pack(of_one{1}) && !(pack(of_one{1}) == pack(of_one{2})));
static_assert(pack(no_options{}) == attributes{});

// `pack` refuses a type that is not a struct of options, with an error sentence.
struct seven_fields {
  int a, b, c, d, e, f, g;
};
struct with_pointer {
  char const* text = "";
};
struct two_shapes {
  shape a, b;
};
struct with_constructor {
  with_constructor() {}
  int a = 1;
};
static_assert(detail::are_options<every_kind>() && detail::are_options<with_shape>() &&
              detail::are_options<no_options>());
static_assert(!detail::are_options<seven_fields>() && !detail::are_options<with_pointer>() &&
              !detail::are_options<two_shapes>() && !detail::are_options<with_constructor>());

// An op's own struct, one that several ops share, and none.
static_assert(std::is_same_v<options_of<op::cast>, op::cast::options>);
static_assert(std::is_same_v<options_of<op::attention>, attention_options> &&
              std::is_same_v<options_of<op::attention_gradient>, attention_options>);
static_assert(std::is_same_v<options_of<op::all_reduce>, no_options>);

// Rules of both forms: with the options by name, and with `attributes`, which users' ops may still take.
struct stretched {
  struct options {
    std::int64_t columns = 1;
  };
  static constexpr char const* name = "stretched";
  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, in[0].shape.with_features(o.columns));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, options const& o) {
    auto result = cost_by_operands(in, out);
    result.flops = static_cast<double>(o.columns);
    return result;
  }
};
struct older {
  static constexpr char const* name = "older";
  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out, attributes const& a) {
    auto result = cost_by_operands(in, out, a);
    result.flops = 3;
    return result;
  }
};
constexpr operand_types matrix() {
  operand_types in;
  in.push_back({dtype::f32, shape(2, 3)});
  return in;
}
constexpr auto nine = pack(stretched::options{.columns = 9});
static_assert(info_of<stretched>.infer(matrix(), nine).outputs[0].shape == shape(2, 9));
static_assert(info_of<stretched>.cost_of(matrix(), matrix(), nine).flops == 9);
static_assert(info_of<older>.infer(matrix(), {}).outputs[0].shape == shape(2, 3));
static_assert(info_of<older>.cost_of(matrix(), matrix(), {}).flops == 3);

// A shape with an extent below 1 is refused before the shape rule, which may divide by the extent.
struct reshaped {
  struct options {
    double before = 0;
    constrain::shape to;
  };
  static constexpr char const* name = "reshaped";
  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, shape(in[0].shape.elements() / o.to.extent[0], o.to.extent[0]));
  }
};
constexpr inferred inferred_for(shape const& to) {
  return info_of<reshaped>.infer(matrix(), pack(reshaped::options{.to = to}));
}
static_assert(inferred_for(shape(3)).outputs[0].shape == shape(2, 3));
static_assert(inferred_for(shape(0)).reason == why::extent_below_one && inferred_for(shape(0)).got == 0);
static_assert(inferred_for(shape(3, -2)).reason == why::extent_below_one && inferred_for(shape(3, -2)).got == -2);

// `emit` and `call` take options by name; defaults fill the rest.
constexpr node emitted(bool by_default) {
  builder out;
  ref const x{out.new_value({dtype::f32, shape(2, 3)}, role::input, 0), at::current};
  return by_default ? out.call<stretched>({x}) : out.call<stretched>({x}, {}, {.columns = 5});
}
static_assert(unpack<stretched::options>(emitted(true).attributes).columns == 1);
static_assert(unpack<stretched::options>(emitted(false).attributes).columns == 5);

} // namespace

template <> struct constrain::kernel<stretched, cpu> {
  static std::int64_t run(call_of<stretched> const& c) { return c.options.columns; }
};
template <> struct constrain::kernel<older, cpu> {
  static int run(call const& c) { return c.random_key; }
};

TEST_CASE("a kernel reads options by name, and the call around them") {
  step_parameters const parameters;
  call c{nine, parameters};
  c.random_key = 4;
  CHECK(kernel<stretched, cpu>::run(c) == 9);
  CHECK(kernel<older, cpu>::run(c) == 4);
  call_of<stretched> const typed = c;
  CHECK(typed.random_key == 4);
  CHECK(&typed.parameters == &parameters);
}
