#pragma once

#include "constrain/data/documents.hpp"

#include "constrain/base/error.hpp"
#include "constrain/data/memory_check.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE void documents::add(std::span<std::int32_t const> tokens, std::int32_t label,
                                                   std::vector<bool> const& prompt) {
  if (tokens.empty()) throw error({"document ", size(), " has no tokens; give at least one"});
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0)
      throw error({"document ", size(), " has the token ", tokens[i], " at position ", i, "; give tokens from 0 on"});
  if (label < 0 && label != ignored_label)
    throw error({"document ", size(), " has the class ", label, "; give a class from 0 on, or ignored_label"});
  if (!prompt.empty() && prompt.size() != tokens.size())
    throw error({"document ", size(), " has ", counted(tokens.size(), "token"), " and ",
                 counted(prompt.size(), "prompt mark"), "; give one mark per token, or none"});
  auto const old_size = tokens_.size();
  try {
    if (begins_.empty()) begins_.push_back(0); // of a moved-from object
    if (!prompt.empty()) {
      prompt_.resize(old_size);
      prompt_.insert(prompt_.end(), prompt.begin(), prompt.end());
    }
    // `tokens` may be part of `tokens_`, and a vector must not insert its own elements.
    std::vector<std::int32_t> const copy(tokens.begin(), tokens.end());
    tokens_.insert(tokens_.end(), copy.begin(), copy.end());
    begins_.push_back(tokens_.size());
    labels_.push_back(label);
  } catch (...) { // an allocation failed; shrinking does not throw
    prompt_.resize(std::min(prompt_.size(), old_size));
    tokens_.resize(old_size);
    begins_.resize(labels_.size() + 1);
    throw;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE documents split_documents(corpus const& source, std::int32_t end) {
  if (end < 0 || end >= source.vocabulary())
    throw error({"split_documents: the token ", end, " is not in the corpus's vocabulary of ",
                 counted(source.vocabulary(), "token"), "; give the token that ends each document"});
  detail::check_memory("the copy of the corpus in memory", source.size(), sizeof(std::int32_t));
  documents result;
  bool const has_prompts = source.labels(0, source.size()) < source.size();
  std::vector<std::int32_t> block(std::size_t{1} << 16), labels, unfinished;
  std::vector<bool> prompt;
  auto const add = [&] {
    result.add(unfinished, ignored_label, prompt);
    unfinished.clear(), prompt.clear();
  };
  for (std::int64_t first = 0; first < source.size(); first += static_cast<std::int64_t>(block.size())) {
    block.resize(static_cast<std::size_t>(std::min(static_cast<std::int64_t>(block.size()), source.size() - first)));
    source.copy(first, block);
    labels.resize(block.size());
    if (has_prompts) source.copy_labels(first, labels);
    for (std::size_t i = 0; i < block.size(); ++i) {
      unfinished.push_back(block[i]);
      if (has_prompts) prompt.push_back(labels[i] == ignored_label);
      if (block[i] == end) add();
    }
  }
  if (!unfinished.empty()) add();
  return result;
}

} // namespace constrain::data
