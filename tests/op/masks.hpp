#pragma once

#include "op/mask_values.hpp"
#include "op/qkv.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace constrain::test {

/// A kind of mask, without sizes.
struct mask_kind {
  bool causal = true;
  int window = 0;
  enum { no_operand, lengths, documents } operand = no_operand;

  attention_options options(int heads, int key_value_heads = 0) const {
    return {.heads = heads,
            .causal = causal,
            .key_value_heads = key_value_heads,
            .window = window,
            .documents = operand == documents};
  }
  std::string name() const {
    return std::string(causal ? "causal" : "not causal") + ", window " + std::to_string(window) +
           (operand == lengths     ? ", lengths"
            : operand == documents ? ", documents"
                                   : "");
  }
  /// The operand of the mask: lengths [sequences], positions [sequences, tokens], or empty.
  std::vector<std::int32_t> values(std::int64_t sequences, std::int64_t tokens) const;
  shape values_shape(std::int64_t sequences, std::int64_t tokens) const {
    return operand == lengths ? shape(sequences) : shape(sequences, tokens);
  }
};

/// Every kind of mask with a window or with documents, and padding with and without a window.
inline std::vector<mask_kind> mask_kinds() {
  std::vector<mask_kind> kinds;
  for (bool causal : {true, false})
    for (int window : {0, 1, 5, 70})
      for (auto operand : {mask_kind::no_operand, mask_kind::lengths, mask_kind::documents})
        kinds.push_back({causal, window, operand});
  return kinds;
}

inline std::vector<std::int32_t> mask_kind::values(std::int64_t sequences, std::int64_t tokens) const {
  if (operand == documents) return some_positions(sequences, tokens);
  return operand == lengths ? some_lengths(sequences, tokens) : std::vector<std::int32_t>();
}

/// Attention and its gradient in double, from the definition: one probability for each pair of a query and a key that
/// the mask allows. `qkv`: queries, keys and values side by side.
class plain_attention {
public:
  std::vector<double> y, dqkv;

  template <class T>
  plain_attention(array<T> const& qkv, array<T> const& dy, mask_kind const& kind, int heads, int key_value_heads)
      : y(dy.values().size()), dqkv(qkv.values().size()), kind_(kind), heads_(heads),
        shared_(key_value_heads == 0 ? heads : key_value_heads), sequences_(qkv.in().shape().extent[0]),
        tokens_(qkv.in().shape().extent[1]), width_(qkv.in().shape().features() / (heads_ + 2 * shared_)),
        values_(kind.values(sequences_, tokens_)), qkv_(as_doubles(qkv)), dy_(as_doubles(dy)) {
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence)
      for (std::int64_t head = 0; head < heads_; ++head)
        for (std::int64_t query = 0; query < tokens_; ++query) add(sequence, head, query);
  }

private:
  template <class T> static std::vector<double> as_doubles(array<T> const& x) {
    std::vector<double> all;
    for (auto const& value : x.values()) all.push_back(static_cast<double>(arithmetic<T>(value)));
    return all;
  }
  bool attends(std::int64_t sequence, std::int64_t query, std::int64_t key) const {
    if (kind_.causal && key > query) return false;
    if (kind_.window != 0 && std::abs(query - key) >= kind_.window) return false;
    if (kind_.operand == mask_kind::lengths) return key < values_[static_cast<std::size_t>(sequence)];
    if (kind_.operand == mask_kind::documents)
      for (auto t = std::min(query, key) + 1; t <= std::max(query, key); ++t)
        if (values_[static_cast<std::size_t>(sequence * tokens_ + t)] == 0) return false; // a document begins between
    return true;
  }
  // The first element of a head of a token: queries, keys and values follow one another in qkv.
  std::size_t at(std::int64_t sequence, std::int64_t token, std::int64_t head) const {
    return static_cast<std::size_t>(((sequence * tokens_ + token) * (heads_ + 2 * shared_) + head) * width_);
  }
  void add(std::int64_t sequence, std::int64_t head, std::int64_t query) {
    auto const width = static_cast<std::size_t>(width_);
    auto const own = at(sequence, query, head);
    auto const to = static_cast<std::size_t>(((sequence * tokens_ + query) * heads_ + head) * width_);
    double const scale = 1 / std::sqrt(static_cast<double>(width_));
    std::int64_t const key_head = heads_ + head / (heads_ / shared_), value_head = key_head + shared_;
    std::vector<std::int64_t> keys;
    std::vector<double> p, dp;
    double sum = 0, row_sum = 0;
    for (std::int64_t key = 0; key < tokens_; ++key) {
      if (!attends(sequence, query, key)) continue;
      double score = 0;
      for (std::size_t i = 0; i < width; ++i) score += qkv_[own + i] * qkv_[at(sequence, key, key_head) + i];
      keys.push_back(key), p.push_back(std::exp(score * scale));
      sum += p.back();
    }
    for (std::size_t n = 0; n < keys.size(); ++n) {
      auto const value = at(sequence, keys[n], value_head);
      p[n] /= sum;
      dp.push_back(0);
      for (std::size_t i = 0; i < width; ++i) {
        y[to + i] += p[n] * qkv_[value + i];
        dp[n] += dy_[to + i] * qkv_[value + i];
        dqkv[value + i] += p[n] * dy_[to + i];
      }
      row_sum += p[n] * dp[n];
    }
    for (std::size_t n = 0; n < keys.size(); ++n) {
      auto const key = at(sequence, keys[n], key_head);
      double const ds = p[n] * (dp[n] - row_sum) * scale;
      for (std::size_t i = 0; i < width; ++i) dqkv[own + i] += ds * qkv_[key + i], dqkv[key + i] += ds * qkv_[own + i];
    }
  }

  mask_kind kind_;
  std::int64_t heads_, shared_, sequences_, tokens_, width_;
  std::vector<std::int32_t> values_;
  std::vector<double> qkv_, dy_;
};

} // namespace constrain::test
