#include <constrain/base/dtype.hpp>

using namespace constrain;

namespace {

constexpr dtype all[] = {dtype::u8, dtype::i32, dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

constexpr bool real_types_are_visited() {
  for (auto type : all)
    if (is_real(type) && visit_real(type, []<class stored>(stored) { return dtype_of<stored>; }) != type) return false;
  return true;
}
static_assert(real_types_are_visited());

constexpr bool types_of_16_bits_are_only_for_storage() {
  for (auto type : all)
    if (is_narrow(type) != (is_real(type) && size_of(type) == 2) ||
        accumulator_of(type) != (is_narrow(type) ? dtype::f32 : type))
      return false;
  return true;
}
static_assert(types_of_16_bits_are_only_for_storage());
static_assert(is_narrow_type<float16> && is_narrow_type<bfloat16 const> && !is_narrow_type<float>);
static_assert(std::is_same_v<arithmetic<float16 const>, float> && std::is_same_v<arithmetic<double const>, double>);

} // namespace
