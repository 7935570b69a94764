#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/device/cuda/tile/multiply.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/attention/head.hpp"
#include "constrain/op/attention/mask.hpp"

#include <cstdint>
#include <type_traits>

/// Definitions that the CUDA kernels of flash attention share.
namespace constrain::inline CONSTRAIN_VARIANT::detail {

inline constexpr int flash_threads = 128; // threads of a block
inline constexpr double log2_of_e = 1.4426950408889634;

/// The maximum number of columns of a tile: a row of so many columns has 256 bytes. With this number, the tiles of a
/// block fit into 48 KiB of shared memory, which every device offers to a block.
template <class stored> inline constexpr int flash_widest = 256 / static_cast<int>(sizeof(stored));

/// The tiles of a block, whose results have `width` columns.
template <class stored, int width> struct flash_tiling {
  static constexpr bool is_narrow = width < flash_widest<stored>;

  // Rows per warp. With 32 rows, tensor cores use each value from shared memory twice per load.
  static constexpr int warp_rows = is_narrow ? 32 : 16;
  static constexpr int rows = flash_threads / 32 * warp_rows; // rows per block
  static constexpr int keys = sizeof(stored) == 8 ? 32 : 64;  // keys per tile in the forward pass
  static constexpr int inner_rows = is_narrow ? 64 : 32;      // rows of the inner tiles of the gradient
  static constexpr int part_rows = is_narrow ? 16 : 32;       // inner rows whose scores are in registers at a time
  // Narrow tiles leave shared memory for two stages: the next tiles are loaded while the block multiplies the current
  // ones.
  static constexpr int stages = is_narrow ? 2 : 1;
};

/// The sizes, the masks and the scale of a call to flash attention.
template <class accumulate> struct flash_call {
  int tokens;
  int heads; // of the queries
  int group; // number of query heads that share one key-value head
  int head_width;
  attention_masks<int> masks;
  bool aligned;     // whether all rows of all heads begin and end at multiples of 16 bytes
  accumulate scale; // of the scores: 1 / sqrt(head width)

  /// `operands`: all tensors [sequences, tokens, heads * head width] that the kernels load or store.
  template <class... tensors>
  flash_call(attention_heads const& h, attention_masks<int> const& sequence_masks, tensors const&... operands)
      : tokens(static_cast<int>(h.tokens)), heads(static_cast<int>(h.heads)), group(static_cast<int>(h.group)),
        head_width(static_cast<int>(h.head_width)), masks(sequence_masks),
        aligned((has_aligned_heads(operands) && ...)), scale(1 / math::sqrt(static_cast<accumulate>(h.head_width))) {}

  /// The scale that turns scores into exponents of 2.
  __device__ accumulate log2_scale() const { return scale * accumulate(log2_of_e); }
  /// The last token of the sequence in [first, first + count); the sequence's last token if `first` is after it.
  __device__ int last_of(int first, int count) const { return (first + count < tokens ? first + count : tokens) - 1; }

private:
  template <class T> bool has_aligned_heads(tensor<T> const& x) const {
    auto const bytes = static_cast<std::int64_t>(sizeof(T));
    return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.row_stride() * bytes % 16 == 0 &&
           head_width * bytes % 16 == 0;
  }
};

/// A tensor [sequences, tokens, heads * head width] as an operand of a kernel.
template <class T> struct flash_operand {
  T* data;
  std::int64_t stride; // elements from one token to the next

  flash_operand(tensor<T> const& x) : data(x.data), stride(x.row_stride()) {}

  /// Tokens [token, end) and columns [column, head width) of one head of one sequence.
  template <class accumulate>
  __device__ matrix_view<T> view(flash_call<accumulate> const& c, int sequence, int head, int token, int column,
                                 int end) const {
    auto* const first = data + (static_cast<std::int64_t>(sequence) * c.tokens + token) * stride;
    return {first + head * c.head_width + column, stride, end - token, c.head_width - column, c.aligned};
  }
  /// The tokens [0, end) of one head of one sequence.
  template <class accumulate>
  __device__ matrix_view<T> head_view(flash_call<accumulate> const& c, int sequence, int head, int end) const {
    return view(c, sequence, head, 0, 0, end);
  }
};

/// The chunks of columns of a head that is wider than the tiles, which have `width` columns. A block computes one chunk
/// of the head's results. For the scores, it reads all chunks in turn, and its own chunk last, because dq, dk and dv
/// need the columns of this chunk. `single`: whether every head fits into one tile.
template <int width, bool single> struct flash_chunks {
  int count, result_chunk;

  __device__ explicit flash_chunks(int head_width)
      : count(single ? 1 : (head_width + width - 1) / width), result_chunk(single ? 0 : static_cast<int>(blockIdx.z)) {}

  /// The first column of chunk number `index`, counted from 0 in the order in which the block reads the chunks.
  __device__ int column(int index) const {
    if constexpr (single) return 0;
    int const chunk = result_chunk + 1 + index;
    return (chunk < count ? chunk : chunk - count) * width;
  }
  /// The first column of this block's results.
  __device__ int result_column() const { return result_chunk * width; }
};

/// Calls `f(element, line, column)` for each of a strip's elements whose query does not attend to its key. The rows
/// begin with token `row`, the columns with token `column`. `of_keys`: whether the rows are keys and the columns
/// queries, or the reverse.
template <bool of_keys, class real, int rows, int columns, bool documents, class function>
__device__ void for_each_masked(strip<real, rows, columns>& x, attention_mask<int, documents> const& mask, int row,
                                int column, function const& f) {
  auto const attends = [&](int row_token, int column_token) {
    return of_keys ? mask.attends_in_window(column_token, row_token) : mask.attends_in_window(row_token, column_token);
  };
  if (!mask.has_documents()) {
    x.for_each([&](real& element, int line, int i) {
      if (!attends(row + x.row(line), column + i)) f(element, line, i);
    });
    return;
  }
  // One bit per element: whether its query attends to its key. The loop is not unrolled, so that few positions are in
  // registers at a time.
  constexpr int line_elements = columns / 4, elements = strip<real, rows, columns>::lines * line_elements;
  std::conditional_t<(elements > 32), std::uint64_t, std::uint32_t> attended = 0;
  CT_KEEP_LOOP
  for (int i = 0; i < elements; ++i) {
    int const row_token = row + x.row(i / line_elements), column_token = column + x.column(i % line_elements);
    if (attends(row_token, column_token) && mask.later_reaches_earlier(row_token, column_token))
      attended |= decltype(attended){1} << i;
  }
  CT_UNROLL
  for (int i = 0; i < elements; ++i) {
    int const line = i / line_elements, n = i % line_elements;
    if ((attended >> i & 1) == 0) f(x.values[line / 2][n / 2][line % 2 * 2 + n % 2], line, x.column(n));
  }
}

/// Launches `kernel` with a block for each chunk of each tile of each head: blockIdx is {sequence * heads + head, tile,
/// chunk}, where a kernel may count the tiles from the last one. A block computes `rows` rows and `width` columns of a
/// head. `heads`: number of heads of a sequence whose results the kernel computes: the query heads, or, for dk and dv,
/// the key-value heads.
template <int rows, int width, class... parameters>
void flash_launch(cuda_context& context, attention_heads const& h, std::int64_t heads, void (*kernel)(parameters...),
                  std::type_identity_t<parameters>... arguments) {
  auto const blocks = [](std::int64_t count, std::int64_t per_block) {
    return static_cast<unsigned>((count + per_block - 1) / per_block);
  };
  cuda_launch(context,
              dim3(static_cast<unsigned>(h.sequences * heads), blocks(h.tokens, rows), blocks(h.head_width, width)),
              flash_threads, kernel, arguments...);
}

/// Calls `f` with the number of columns of the tiles, as a std::integral_constant. With 16-bit elements, this is the
/// smallest of 32, 64 and 128 that is at least `head_width`, or 128 for wider heads. With wider elements, it is always
/// `flash_widest`.
template <class stored, class function> void with_flash_width(std::int64_t head_width, function const& f) {
  constexpr int widest = flash_widest<stored>;
  if constexpr (for_tensor_cores<stored>) {
    if (head_width <= widest / 4) return f(std::integral_constant<int, widest / 4>{});
    if (head_width <= widest / 2) return f(std::integral_constant<int, widest / 2>{});
  }
  f(std::integral_constant<int, widest>{});
}

} // namespace constrain::detail
