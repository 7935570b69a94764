#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/error.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

// Only compilers for x86 know these names.
#if defined(__x86_64__) && defined(__GNUC__)
/// Whether this is an AMD processor.
inline bool is_amd() { return __builtin_cpu_is("amd"); }
/// Whether the processor has AVX-512.
inline bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
#else
inline bool is_amd() { return false; }
inline bool has_avx512() { return false; }
#endif

/// Whether oneDNN's bf16 GEMM is faster on this machine than the built-in GEMM that converts the operands to fp32. This
/// is the case with AMX, or with AVX512-BF16 on AMD processors. On Intel processors where AMX is absent or disabled (as
/// in some virtual machines), AVX512-BF16 reaches only half the fp32 rate: 205 against 400 GFLOP/s on two cores of an
/// Intel Xeon (family 6, model 207) with AMX disabled. Used only if `multiplies_pairs` is false: otherwise, the
/// built-in GEMM multiplies bf16 pairs with vdpbf16ps, which was faster than oneDNN on Zen 5.
inline bool onednn_multiplies_bf16() {
  static bool const is_faster = [] {
    auto const supported = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    auto const has_isa = [&](unsigned isa) { return (supported & isa) == isa; };
    return has_isa(dnnl_cpu_isa_avx512_core_amx) || (has_isa(dnnl_cpu_isa_avx512_core_bf16) && is_amd());
  }();
  return is_faster;
}

/// Throws `error` unless `status` is success. `what`: oneDNN's action, such as "create a stream".
inline void onednn_check(dnnl_status_t status, char const* what) {
  if (status != dnnl_success)
    throw error({"gemm: oneDNN could not ", what, ": status ", static_cast<int>(status),
                 "; build without CONSTRAIN_WITH_ONEDNN for another provider"});
}

/// Whether to use the built-in GEMM instead of oneDNN for a float GEMM whose A is not transposed. m, n, k: as in
/// `gemm`. ldb: elements from one row of the stored B to the next. Measured with oneDNN 2.6 on two Zen 3 cores, which
/// have AVX2 but not AVX-512, with the layers of bench/gemms.cpp (medians): with rows of B that are a multiple of 4096
/// bytes apart, the built-in GEMM reached 1.20 times oneDNN's rate for 8 rows of A and 1.42 times for 64; with other
/// rows of B, 0.80 times for 8, 1.04 times for 64 and 1.12 times for 256. In smaller layers, with n and k from 64 to
/// 1000, it reached 0.87 to 1.19 times for 64 rows, so with other rows of B, m must be at least 128. oneDNN was faster
/// for up to 4 rows of A, and mostly for n below 128 or k below 64.
inline bool prefers_builtin_gemm_to_onednn(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t ldb) {
  static bool const avx2_only = vector_bytes == 32 && !has_avx512();
  return avx2_only && m >= (ldb % 1024 == 0 ? 8 : 128) && n >= 128 && k >= 64;
}

/// Whether to use oneDNN's matmul primitive instead of `dnnl_sgemm` for a float GEMM of A and the transpose of B. m, n,
/// k: as in `gemm`. Rates of `dnnl_sgemm` and of matmul, in GFLOP/s, on two Zen 5 cores with oneDNN 2.6
/// (bench/gemms.cpp): with rows of B that are a multiple of 4096 bytes apart, 136 and 435 for 64 rows of A, 299 and 475
/// for 256, 488 and 487 for 1024; with other rows, 336 and 440 for 64, 416 and 456 for 256, 490 and 476 for 1024. For
/// one or two rows, dnnl_sgemm was faster. A small GEMM would take less time than the preparation of the primitive.
inline bool onednn_matmul_is_faster(std::int64_t m, std::int64_t n, std::int64_t k) {
  static bool const avx512 = has_avx512();
  return avx512 && m >= 4 && (m < 1024 || n < 1024) && m * n * k >= std::int64_t{1} << 24;
}

/// Owns `value`, an object of oneDNN's C interface, and destroys it; null until a create function has filled it.
template <class handle, dnnl_status_t (*destroy)(handle)> struct onednn_handle {
  handle value{};
  onednn_handle() = default;
  onednn_handle(onednn_handle const&) = delete;
  onednn_handle& operator=(onednn_handle const&) = delete;
  ~onednn_handle() {
    if (value) destroy(value);
  }
};
using onednn_memory = onednn_handle<dnnl_memory_t, &dnnl_memory_destroy>;
using onednn_primitive = onednn_handle<dnnl_primitive_t, &dnnl_primitive_destroy>;
using onednn_primitive_desc = onednn_handle<dnnl_primitive_desc_t, &dnnl_primitive_desc_destroy>;
using onednn_attributes = onednn_handle<dnnl_primitive_attr_t, &dnnl_primitive_attr_destroy>;
using onednn_post_ops = onednn_handle<dnnl_post_ops_t, &dnnl_post_ops_destroy>;
using onednn_engine = onednn_handle<dnnl_engine_t, &dnnl_engine_destroy>;
using onednn_stream = onednn_handle<dnnl_stream_t, &dnnl_stream_destroy>;

// A matrix's memory descriptor: a value in oneDNN 2, a handle in oneDNN 3.
#if DNNL_VERSION_MAJOR < 3
struct onednn_layout {
  dnnl_memory_desc_t value;
  onednn_layout(dnnl_dims_t const& extents, dnnl_data_type_t type, dnnl_dims_t const& strides) {
    onednn_check(dnnl_memory_desc_init_by_strides(&value, 2, extents, type, strides), "create a memory descriptor");
  }
  dnnl_memory_desc_t const* get() const { return &value; }
};
#else
struct onednn_layout {
  onednn_handle<dnnl_memory_desc_t, &dnnl_memory_desc_destroy> value;
  onednn_layout(dnnl_dims_t const& extents, dnnl_data_type_t type, dnnl_dims_t const& strides) {
    onednn_check(dnnl_memory_desc_create_with_strides(&value.value, 2, extents, type, strides),
                 "create a memory descriptor");
  }
  dnnl_memory_desc_t get() const { return value.value; }
};
#endif

/// oneDNN's CPU engine and a stream on this engine.
struct onednn_context {
  onednn_engine engine;
  onednn_stream stream;
  onednn_context() {
    onednn_check(dnnl_engine_create(&engine.value, dnnl_cpu, 0), "create an engine");
    onednn_check(dnnl_stream_create(&stream.value, engine.value, dnnl_stream_default_flags), "create a stream");
  }
};

/// oneDNN's constant for `type`; dnnl_data_type_undef if `onednn_matmul` does not support `type`.
template <class type> inline constexpr auto onednn_type = dnnl_data_type_undef;
template <> inline constexpr auto onednn_type<float> = dnnl_f32;
template <> inline constexpr auto onednn_type<bfloat16> = dnnl_bf16;

/// C = op(A) op(B) + beta C with oneDNN's matmul, for m, n, k > 0. `ta`, `tb`: whether op transposes A, B. Other
/// arguments as in `gemm` (gemm.hpp). oneDNN caches the compiled primitives by shape. Throws `error` if oneDNN fails.
template <class stored, class c_type>
  requires(onednn_type<stored> != dnnl_data_type_undef && onednn_type<c_type> != dnnl_data_type_undef)
void onednn_matmul(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, stored const* a, std::int64_t lda,
                   stored const* b, std::int64_t ldb, float beta, c_type* c, std::int64_t ldc) {
  static onednn_context const context;
  dnnl_dims_t const a_extents = {m, k}, b_extents = {k, n}, c_extents = {m, n};
  dnnl_dims_t const a_strides = {ta ? 1 : lda, ta ? lda : 1}, b_strides = {tb ? 1 : ldb, tb ? ldb : 1},
                    c_strides = {ldc, 1};
  onednn_layout const a_layout(a_extents, onednn_type<stored>, a_strides),
      b_layout(b_extents, onednn_type<stored>, b_strides), c_layout(c_extents, onednn_type<c_type>, c_strides);

  onednn_attributes attributes;
  onednn_check(dnnl_primitive_attr_create(&attributes.value), "create attributes");
  if (beta != 0) {
    onednn_post_ops post_ops;
    onednn_check(dnnl_post_ops_create(&post_ops.value), "set a post-op");
#if DNNL_VERSION_MAJOR < 3
    onednn_check(dnnl_post_ops_append_sum(post_ops.value, beta), "set a post-op");
#else
    onednn_check(dnnl_post_ops_append_sum(post_ops.value, beta, 0, dnnl_data_type_undef), "set a post-op");
#endif
    onednn_check(dnnl_primitive_attr_set_post_ops(attributes.value, post_ops.value), "set a post-op");
  }

  onednn_primitive_desc desc;
#if DNNL_VERSION_MAJOR < 3
  dnnl_matmul_desc_t matmul;
  onednn_check(dnnl_matmul_desc_init(&matmul, a_layout.get(), b_layout.get(), nullptr, c_layout.get()),
               "describe a matmul");
  onednn_check(dnnl_primitive_desc_create(&desc.value, &matmul, attributes.value, context.engine.value, nullptr),
               "describe a matmul");
#else
  onednn_check(dnnl_matmul_primitive_desc_create(&desc.value, context.engine.value, a_layout.get(), b_layout.get(),
                                                 nullptr, c_layout.get(), attributes.value),
               "describe a matmul");
#endif
  onednn_primitive primitive;
  onednn_check(dnnl_primitive_create(&primitive.value, desc.value), "create a matmul");

  onednn_memory a_memory, b_memory, c_memory;
  auto const wrap = [&](onednn_memory& memory, onednn_layout const& layout, void const* data) {
    onednn_check(dnnl_memory_create(&memory.value, layout.get(), context.engine.value, const_cast<void*>(data)),
                 "create a memory object");
  };
  wrap(a_memory, a_layout, a), wrap(b_memory, b_layout, b), wrap(c_memory, c_layout, c);
  dnnl_exec_arg_t const arguments[] = {
      {DNNL_ARG_SRC, a_memory.value}, {DNNL_ARG_WEIGHTS, b_memory.value}, {DNNL_ARG_DST, c_memory.value}};
  onednn_check(dnnl_primitive_execute(primitive.value, context.stream.value, 3, arguments), "execute a matmul");
  onednn_check(dnnl_stream_wait(context.stream.value), "finish a matmul");
}

} // namespace constrain::detail
