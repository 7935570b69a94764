#pragma once

#include "constrain/data/documents.hpp"

#include "constrain/base/error.hpp"
#include "constrain/data/room.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE void documents::add(std::span<std::int32_t const> tokens, std::int32_t label) {
  if (tokens.empty()) throw error({"document ", size(), " has no tokens; give at least one"});
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0)
      throw error({"document ", size(), " has the token ", tokens[i], " at position ", i, "; give tokens from 0 on"});
  if (label < 0 && label != ignored_label)
    throw error({"document ", size(), " has the class ", label, "; give a class from 0 on, or ignored_label"});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  begins_.push_back(tokens_.size());
  labels_.push_back(label);
}

[[gnu::cold]] CONSTRAIN_INLINE documents split_documents(corpus const& from, std::int32_t end) {
  if (end < 0 || end >= from.vocabulary())
    throw error({"split_documents: the token ", end, " is not in the corpus's vocabulary of ", from.vocabulary(),
                 "; give the token that ends each document"});
  detail::check_room("the corpus", from.size(), sizeof(std::int32_t));
  documents all;
  std::vector<std::int32_t> block(std::size_t{1} << 16), unfinished;
  for (std::int64_t at = 0; at < from.size(); at += static_cast<std::int64_t>(block.size())) {
    block.resize(static_cast<std::size_t>(std::min(static_cast<std::int64_t>(block.size()), from.size() - at)));
    from.copy(at, block);
    for (auto const token : block) {
      unfinished.push_back(token);
      if (token != end) continue;
      all.add(unfinished);
      unfinished.clear();
    }
  }
  if (!unfinished.empty()) all.add(unfinished);
  return all;
}

} // namespace constrain::data
