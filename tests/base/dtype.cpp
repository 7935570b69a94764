#include <constrain/base/dtype.hpp>

using namespace constrain;

namespace {

constexpr dtype all[] = {dtype::u8, dtype::i32, dtype::bf16, dtype::f32, dtype::f64};

constexpr bool real_types_are_visited() {
  for (auto type : all)
    if (is_real(type) && visit_real(type, []<class stored>(stored) { return dtype_of<stored>; }) != type) return false;
  return true;
}
static_assert(real_types_are_visited());

} // namespace
