#pragma once

#include "constrain/train/sample.hpp"

#include "constrain/base/number_check.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE std::vector<std::int32_t> tokens_of(std::string_view text) {
  std::vector<std::int32_t> tokens;
  for (char const c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

CONSTRAIN_INLINE std::string text_of(std::vector<std::int32_t> const& tokens) {
  std::string text;
  for (auto const token : tokens) text += static_cast<char>(token);
  return text;
}

CONSTRAIN_INLINE std::int64_t fill_context(std::vector<std::int32_t>& context,
                                           std::vector<std::int32_t> const& tokens) {
  auto const length = static_cast<std::ptrdiff_t>(std::min(context.size(), tokens.size()));
  std::copy(tokens.end() - length, tokens.end(), context.begin());
  std::fill(context.begin() + length, context.end(), 0);
  return length;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE sampler::sampler(generate_options const& options) : options_(options) {
  check_number("generate_options", ".temperature", options.temperature, number_range::from_zero);
  check_count("generate_options", ".top_k", options.top_k, 0);
}

} // namespace constrain
