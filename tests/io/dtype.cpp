#include <constrain/io/dtype.hpp>

#include <cstdint>

using namespace constrain;

namespace {

constexpr bool files_know_every_type() {
  for (auto type : {dtype::u8, dtype::i32, dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    if (static_cast<std::int64_t>(io::dtype_bytes(io::name_in_files(type))) != size_of(type)) return false;
  return true;
}
static_assert(files_know_every_type());

} // namespace
