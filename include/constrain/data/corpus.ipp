#pragma once

#include "constrain/data/corpus.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/label.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/data/order.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/text_bytes.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE corpus corpus::from_bytes(std::string bytes, std::vector<bool> prompt,
                                                         std::int64_t text_length) {
  if (bytes.empty()) throw error({"the corpus has no tokens; give it at least one byte"});
  if (!prompt.empty() && prompt.size() != bytes.size())
    throw error({"a corpus of ", counted(bytes.size(), "byte"), " has ", counted(prompt.size(), "prompt mark"),
                 "; give one mark per byte, or none"});
  check_count("corpus::from_bytes", "text_length", text_length, 1);
  if (auto const size = static_cast<std::int64_t>(bytes.size()); size % text_length != 0)
    throw error({"a corpus of ", counted(size, "byte"), " ends within a text of ", counted(text_length, "token"),
                 "; give only complete texts"});
  auto storage = std::make_shared<std::string const>(std::move(bytes));
  auto const view = io::text_bytes(*storage);
  corpus result(token_source(std::move(storage), view), token_width::byte, 256);
  result.text_length_ = text_length;
  bool has_prompt = false;
  for (bool const mark : prompt) has_prompt = has_prompt || mark;
  if (has_prompt) result.prompt_ = std::make_shared<std::vector<bool> const>(std::move(prompt));
  result.set_fingerprint();
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE corpus corpus::from_storage(std::shared_ptr<void const> storage,
                                                           std::span<std::byte const> view, token_width width) {
  auto const size = static_cast<std::size_t>(width);
  if (width != token_width::byte && width != token_width::uint16 && width != token_width::uint32)
    throw error({"corpus::from_storage: a token width of ", counted(size, "byte"),
                 " is not supported; give token_width::byte, token_width::uint16 or token_width::uint32"});
  if (view.empty()) throw error("the corpus has no tokens; give it at least one");
  if (view.size() % size != 0)
    throw error({"a corpus of ", counted(view.size(), "byte"), " ends within a ", size,
                 "-byte token; give only complete tokens"});
  auto const vocabulary_size =
      width == token_width::byte ? byte_vocabulary : vocabulary_for(largest(view, width), "the corpus");
  corpus result(token_source(std::move(storage), view), width, vocabulary_size);
  result.set_fingerprint();
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE corpus corpus::from_file(std::shared_ptr<token_file> file, std::int64_t begin,
                                                        token_width width) {
  auto const size = static_cast<std::int64_t>(width);
  if (width != token_width::uint16 && width != token_width::uint32)
    throw error({"corpus::from_file: a token width of ", counted(size, "byte"),
                 " is not supported; give token_width::uint16 or token_width::uint32"});
  check_count("corpus::from_file", "begin", begin, 0);
  if (begin >= file->size())
    throw error({"the token file '", file->path(), "' has no tokens from byte ", begin,
                 " on; give a smaller begin, or a file with at least one token"});
  if ((file->size() - begin) % size != 0)
    throw error({"the token file '", file->path(), "' has ", counted(file->size() - begin, "byte"), " from byte ",
                 begin, " on, and so ends within a ", size, "-byte token; give only complete tokens"});
  std::uint32_t maximum = 0;
  auto const find_largest = [&](std::span<std::byte const> chunk) {
    maximum = std::max(maximum, largest(chunk, width));
  };
  auto const check = file->remember(begin, find_largest);
  auto const vocabulary_size = vocabulary_for(maximum, concat({"the token file '", file->path(), "'"}));
  corpus result(token_source(std::move(file)), width, vocabulary_size);
  result.fingerprint_ = fingerprint_of(result.size(), check);
  return result;
}

CONSTRAIN_INLINE void corpus::for_runs(std::int64_t first, std::int64_t count,
                                       function_ref<void(std::int64_t, std::int64_t)> visit) const {
  if (first < 0 || count < 0 || first > size() || count > size() - first)
    throw error({"a corpus of ", counted(size(), "token"), " was read out of bounds: ", counted(count, "token"),
                 " starting at token ", first, "; read only tokens that it has"});
  auto const begins_after = [](std::int64_t index, run const& r) { return index < r.begin; };
  auto next = std::upper_bound(runs_->begin(), runs_->end(), first, begins_after);
  while (count > 0) {
    auto const& current = *(next - 1);
    auto const end = next == runs_->end() ? size() : next->begin;
    auto const n = std::min(count, end - first);
    visit(current.first + (first - current.begin), n);
    first += n, count -= n;
    if (count > 0) ++next;
  }
}

CONSTRAIN_INLINE void corpus::for_bytes(std::int64_t first, std::int64_t count,
                                        function_ref<void(std::span<std::byte const>)> visit) const {
  for_runs(first, count, [&](std::int64_t in_storage, std::int64_t n) {
    source_.visit(in_storage * width_bytes(), n * width_bytes(), visit);
  });
}

CONSTRAIN_INLINE std::int32_t corpus::token(std::int64_t index) const {
  std::int32_t value = 0;
  copy(index, {&value, std::size_t{1}});
  return value;
}

CONSTRAIN_INLINE void corpus::copy(std::int64_t first, std::span<std::int32_t> tokens) const {
  auto out = tokens.data();
  for_bytes(first, static_cast<std::int64_t>(tokens.size()), [&](std::span<std::byte const> chunk) {
    std::uint32_t maximum = 0;
    for_tokens(chunk, width_, [&](std::uint32_t token) {
      maximum = std::max(maximum, token);
      *out++ = static_cast<std::int32_t>(token);
    });
    // All tokens were below `vocabulary_` when the corpus was made, so a larger one shows that the source has changed.
    if (maximum >= static_cast<std::uint32_t>(vocabulary_)) throw source_.changed();
  });
}

CONSTRAIN_INLINE void corpus::copy_labels(std::int64_t first, std::span<std::int32_t> labels) const {
  copy(first, labels);
  if (prompt_ == nullptr) return;
  auto out = labels.data();
  for_runs(first, static_cast<std::int64_t>(labels.size()), [&](std::int64_t in_storage, std::int64_t count) {
    for (auto i = in_storage; i < in_storage + count; ++i, ++out)
      if (is_prompt(i)) *out = ignored_label;
  });
}

CONSTRAIN_INLINE std::int64_t corpus::labels(std::int64_t first, std::int64_t count) const {
  std::int64_t result = 0;
  for_runs(first, count, [&](std::int64_t in_storage, std::int64_t n) {
    for (auto i = in_storage; i < in_storage + n && prompt_ != nullptr; ++i) result -= is_prompt(i);
    result += n;
  });
  return result;
}

CONSTRAIN_INLINE std::uint32_t corpus::largest(std::span<std::byte const> tokens, token_width width) {
  std::uint32_t maximum = 0;
  for_tokens(tokens, width, [&](std::uint32_t token) { maximum = std::max(maximum, token); });
  return maximum;
}

[[gnu::cold]] CONSTRAIN_INLINE std::int32_t corpus::vocabulary_for(std::uint32_t largest, std::string const& source) {
  if (largest > largest_token)
    throw error({source, " has the token ", largest, ", but the largest token of a vocabulary is at most ",
                 largest_token, "; give tokens from 0 to ", largest_token,
                 " or, if they have 16 bits, token_width::uint16 (with data::tokens, leave .bits out)"});
  return static_cast<std::int32_t>(largest) + 1;
}

CONSTRAIN_INLINE void corpus::set_fingerprint() {
  io::crc32c check;
  for_bytes(0, size(), [&](std::span<std::byte const> chunk) { check.update(chunk); });
  std::string marks;
  if (prompt_ != nullptr)
    for_runs(0, size(), [&](std::int64_t first, std::int64_t count) {
      for (auto i = first; i < first + count; ++i) marks.push_back(is_prompt(i) ? 1 : 0);
    });
  fingerprint_ = fingerprint_of(size(), check.update(io::text_bytes(marks)).value());
}

[[gnu::cold]] CONSTRAIN_INLINE void corpus::selection::add(std::int64_t first, std::int64_t count) {
  corpus_.for_runs(first, count, [&](std::int64_t in_storage, std::int64_t n) {
    if (runs_.empty() || runs_.back().first + (length_ - runs_.back().begin) != in_storage)
      runs_.push_back({length_, in_storage});
    length_ += n;
  });
}

[[gnu::cold]] CONSTRAIN_INLINE corpus corpus::selection::part() && {
  corpus result(corpus_);
  if (runs_.empty()) runs_.push_back({0, 0}); // `for_runs` needs at least one run
  result.length_ = length_;
  result.runs_ = std::make_shared<std::vector<run> const>(std::move(runs_));
  result.set_fingerprint();
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t corpus::validation_size(double fraction, std::int64_t total) {
  if (!constrain::detail::is_within(fraction, number_range::from_zero_to_one))
    throw error({"split: a validation fraction of ", constrain::detail::number_text(fraction),
                 " is out of range; give one from 0 to 1"});
  return std::min(total, static_cast<std::int64_t>(fraction * static_cast<double>(total)));
}

[[gnu::cold]] CONSTRAIN_INLINE corpus::parts corpus::split(double validation_fraction) const {
  auto const texts = size() / text_length_;
  auto const train_size = (texts - validation_size(validation_fraction, texts)) * text_length_;
  selection train(*this), validation(*this);
  train.add(0, train_size);
  validation.add(train_size, size() - train_size);
  return {std::move(train).part(), std::move(validation).part()};
}

[[gnu::cold]] CONSTRAIN_INLINE corpus::parts corpus::split(double validation_fraction, std::uint64_t seed,
                                                           std::int64_t block) const {
  if (block < 1) throw error({"split: a block of ", block, " tokens is too short; give at least 1"});
  auto const texts = size() / text_length_, block_texts = block / text_length_ + (block % text_length_ != 0);
  auto const blocks = texts / block_texts + (texts % block_texts != 0);
  std::vector<bool> drawn(static_cast<std::size_t>(blocks));
  if (auto const count = validation_size(validation_fraction, blocks); count > 0) {
    permutation const order(seed, 0, blocks);
    for (std::int64_t i = 0; i < count; ++i) drawn[static_cast<std::size_t>(order(i))] = true;
  }
  selection train(*this), validation(*this);
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto const first = i * block_texts, count = std::min(block_texts, texts - first);
    (drawn[static_cast<std::size_t>(i)] ? validation : train).add(first * text_length_, count * text_length_);
  }
  return {std::move(train).part(), std::move(validation).part()};
}

} // namespace constrain::data
