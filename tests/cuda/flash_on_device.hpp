#pragma once

#include "cuda/tasks.hpp"
#include "op/quadratic_attention.hpp"
#include "relative_error.hpp"

#include <constrain/device/cuda/stream.cuh>
#include <constrain/run/cuda_arena.cuh>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace constrain::test {

/// How far flash attention on a device may be from attention in fp64, relative to the norm of the tensor.
template <class T> inline constexpr double flash_tolerance = std::is_same_v<T, double> ? 1e-10 : 2e-5;
template <> inline constexpr double flash_tolerance<float16> = 2e-3;
template <> inline constexpr double flash_tolerance<bfloat16> = 1e-2;

/// A case of flash attention.
struct flash_case {
  std::int64_t sequences, tokens, head_width;
  attention_options options;
  bool aligned = true; // whether tensors begin at multiples of 256 bytes; otherwise, one element after
  bool padded = false; // whether the sequences have lengths; then keys and values of the padding are NaN
  double stddev = 1;   // of queries, keys and values

  /// The operand of the mask: lengths, positions in documents, or empty.
  std::vector<std::int32_t> mask() const {
    if (options.documents) return some_positions(sequences, tokens);
    return padded ? some_lengths(sequences, tokens) : std::vector<std::int32_t>();
  }
};

/// Runs flash attention and its gradient on a device: queries, keys and values side by side in one tensor, and so are
/// their gradients.
template <class T> class flash_on_device {
public:
  using real = arithmetic<T>;
  std::vector<T> y, dqkv;
  std::vector<real> logsumexp;

  flash_on_device(flash_case const& f, array<T> const& qkv, array<T> const& dy)
      : stream_(cuda_device()), memory_(bytes(bytes_of(qkv, f)), stream_), context_(stream_, memory_.data()) {
    memory_.fill(0, memory_.size().count(), 0xFF); // every element is NaN
    auto const wide = qkv.in().shape(), narrow = dy.in().shape();
    shape const rows(f.sequences, f.options.heads, f.tokens);
    std::int64_t const shift = f.aligned ? 0 : 1;
    auto* const on_qkv = put(qkv.values(), shift);
    auto* const on_dy = put(dy.values(), shift);
    auto* const on_y = room<T>(narrow.elements(), shift);
    auto* const on_dqkv = room<T>(wide.elements(), shift);
    auto* const on_logsumexp = room<real>(rows.elements(), 0);
    auto* const on_scratch = room<real>(rows.elements(), 0);
    auto const values = f.mask();
    auto* const on_mask = put(values, 0);
    shape const mask_shape = f.options.documents ? shape(f.sequences, f.tokens) : shape(f.sequences);
    tensor<std::int32_t const> const mask{on_mask, &mask_shape, mask_shape.elements()};
    step_parameters parameters;
    parameters.context = &context_;
    auto const attributes = pack(f.options);
    call const c{attributes, parameters};
    qkv_operands<T const> const x(*on_qkv, wide, f.options);
    qkv_operands<T> const dx(*on_dqkv, wide, f.options);
    allow({{on_qkv, qkv.values().size() * sizeof(T)},
           {on_y, dy.values().size() * sizeof(T)},
           {on_logsumexp, static_cast<std::size_t>(rows.elements()) * sizeof(real)},
           {on_dy, dy.values().size() * sizeof(T)},
           {on_dqkv, qkv.values().size() * sizeof(T)},
           {on_scratch, static_cast<std::size_t>(rows.elements()) * sizeof(real)},
           {on_mask, values.size() * sizeof(std::int32_t)}});
    using forward = kernel<op::flash_attention, target>;
    using backward = kernel<op::flash_attention_gradient, target>;
    call_of<op::flash_attention> const first(c);
    call_of<op::flash_attention_gradient> const second(c);
    tensor<T> const to{on_y, &narrow, narrow.elements()};
    tensor<T const> const g{on_dy, &narrow, narrow.elements()}, from{on_y, &narrow, narrow.elements()};
    tensor<real> const sums{on_logsumexp, &rows, rows.elements()}, scratch{on_scratch, &rows, rows.elements()};
    tensor<real const> const kept{on_logsumexp, &rows, rows.elements()};
    if (!values.empty()) {
      forward::run(first, x.q(), x.k(), x.v(), mask, to, sums);
      backward::run(second, g, x.q(), x.k(), x.v(), from, kept, mask, dx.q(), dx.k(), dx.v(), scratch);
    } else {
      forward::run(first, x.q(), x.k(), x.v(), to, sums);
      backward::run(second, g, x.q(), x.k(), x.v(), from, kept, dx.q(), dx.k(), dx.v(), scratch);
    }
    allow_everything();
    y = get(on_y, narrow.elements());
    dqkv = get(on_dqkv, wide.elements());
    logsumexp = get(on_logsumexp, rows.elements());
  }

private:
  struct range {
    void const* begin;
    std::size_t bytes;
  };
  /// On the host and under AddressSanitizer, kernels may touch only these ranges from now on.
  void allow(std::vector<range> const& ranges) {
#if defined(CONSTRAIN_ON_HOST)
    std::vector<on_host::byte_range> allowed;
    for (auto const& r : ranges) allowed.push_back({r.begin, r.bytes});
    on_host::allow_only(memory_.data(), static_cast<std::size_t>(memory_.size().count()), allowed);
#else
    static_cast<void>(ranges);
#endif
  }
  void allow_everything() {
#if defined(CONSTRAIN_ON_HOST)
    cuda_check(cudaStreamSynchronize(stream_), "run the kernels");
    on_host::allow_all(memory_.data(), static_cast<std::size_t>(memory_.size().count()));
#endif
  }

  static std::int64_t bytes_of(array<T> const& qkv, flash_case const& f) {
    auto const rows = f.sequences * f.options.heads * f.tokens;
    return 4 * qkv.in().count * static_cast<std::int64_t>(sizeof(T)) +
           2 * rows * static_cast<std::int64_t>(sizeof(real)) + 4 * f.sequences * f.tokens + 17 * 256;
  }
  template <class U> U* room(std::int64_t count, std::int64_t shift) {
    auto* const begin = reinterpret_cast<U*>(memory_.data() + used_) + shift;
    used_ += ((count + shift) * static_cast<std::int64_t>(sizeof(U)) + 255) / 256 * 256;
    return begin;
  }
  template <class U> U* put(std::vector<U> const& x, std::int64_t shift) {
    auto* const to = room<U>(static_cast<std::int64_t>(x.size()), shift);
    memory_.write(offset(to), x.data(), static_cast<std::int64_t>(x.size() * sizeof(U)));
    return to;
  }
  template <class U> std::vector<U> get(U const* from, std::int64_t count) {
    std::vector<U> x(static_cast<std::size_t>(count));
    memory_.read(offset(from), x.data(), count * static_cast<std::int64_t>(sizeof(U)));
    return x;
  }
  std::int64_t offset(void const* x) const { return static_cast<std::byte const*>(x) - memory_.data(); }

  cuda_stream stream_;
  cuda_arena memory_;
  std::int64_t used_ = target::parameter_bytes;
  cuda_context context_;
};

/// The largest distances from attention in fp64, printed when the program ends.
struct flash_distances {
  char const* type;
  double forward = 0, backward = 0;
  ~flash_distances() {
    std::printf("distance of flash attention, %s: y %.2e, gradients %.2e\n", type, forward, backward);
  }
};

/// Checks one case against attention in fp64, and that a second run has the same bits.
template <class T> void check_flash(flash_case const& f, flash_distances& distances) {
  auto const& o = f.options;
  shape const wide(f.sequences, f.tokens, (o.heads + 2 * detail::key_value_heads(o)) * f.head_width);
  auto const qkv = array<T>::random(wide, 1, f.stddev),
             dy = array<T>::random(wide.with_features(o.heads * f.head_width), 2);
  CAPTURE(f.tokens);
  CAPTURE(f.head_width);
  CAPTURE(o.heads);
  CAPTURE(o.key_value_heads);
  CAPTURE(o.causal);
  CAPTURE(o.window);
  CAPTURE(o.documents);
  CAPTURE(f.padded);
  CAPTURE(f.stddev);
  quadratic<double> const expected(qkv, dy, o, f.mask());
  auto const read = f.padded ? without_padding(qkv, o, f.mask()) : qkv;
  flash_on_device<T> const got(f, read, dy), again(f, read, dy);
  auto const forward = relative_error(in_double(got.y), expected.y);
  auto const backward = relative_error(in_double(got.dqkv), expected.dqkv);
  CHECK(forward <= flash_tolerance<T>);
  CHECK(backward <= flash_tolerance<T>);
  CHECK(same_bits(got.y, again.y));
  CHECK(same_bits(got.dqkv, again.dqkv));
  CHECK(same_bits(got.logsumexp, again.logsumexp));
  if (!(forward <= distances.forward)) distances.forward = forward; // a NaN stays
  if (!(backward <= distances.backward)) distances.backward = backward;
}

} // namespace constrain::test
