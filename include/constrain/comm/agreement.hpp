#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/function_ref.hpp"
#include "constrain/comm/communicator.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

// What one rank finds is told to all: all of them throw the same sentence, or none does.

namespace constrain::inline CONSTRAIN_VARIANT {

/// What all ranks call together. Each exchange says which it belongs to, so that ranks in different calls are found.
enum class joint_call : std::int64_t {
  construction,
  step,
  evaluate,
  predict,
  generate,
  save,
  load,
  resume,
  pretrained,
  fit,
  question
};

/// As it stands in sentences: "step", "save", ...
constexpr char const* name_of(joint_call c) {
  constexpr char const* names[] = {"the construction of a trainer",
                                   "step",
                                   "evaluate",
                                   "predict",
                                   "generate",
                                   "save",
                                   "load",
                                   "resume",
                                   "load_pretrained",
                                   "fit",
                                   "in_any_rank"};
  return names[static_cast<int>(c)];
}

namespace detail {

/// The exception that was agreed on last: every rank throws it at the same place.
inline std::exception_ptr& agreed_failure() {
  static thread_local std::exception_ptr agreed;
  return agreed;
}

/// all[r] = rank r's value; all[my rank] is there already.
template <class type> void gather(communicator& world, type* all) {
  std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = rank * static_cast<std::int64_t>(sizeof(type));
    lengths[rank] = sizeof(type);
  }
  world.all_gather(reinterpret_cast<std::byte*>(all), offsets, lengths);
}

/// The ranks' texts, one after another in their order; `lengths` has the length of each.
inline std::string gather_texts(communicator& world, std::string_view mine, std::int64_t const* lengths) {
  std::int64_t offsets[communicator::maximum_size];
  std::int64_t end = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = end;
    end += lengths[rank];
  }
  std::string all(static_cast<std::size_t>(end), ' ');
  mine.copy(all.data() + offsets[world.rank()], mine.size());
  world.all_gather(reinterpret_cast<std::byte*>(all.data()), offsets, lengths);
  return all;
}

inline std::uint64_t hash_of(std::string_view text) { // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

inline std::string sentence_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) { return e.what(); } catch (...) {
    return "an exception that says nothing";
  }
}

/// Throws an error that every rank throws.
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_agreed(std::string sentence) {
  agreed_failure() = std::make_exception_ptr(error(std::move(sentence)));
  std::rethrow_exception(agreed_failure());
}

struct vote {
  std::int64_t call = 0, count = 0;
  std::uint64_t content = 0; // of what is read: of the corpus, of the files
  std::int64_t length = 0;   // of the sentence of a rank that failed, 0 where it did not
  std::uint64_t hash = 0;    // of it
};

/// Throws, on every rank, for votes that are not all well and alike.
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_for(communicator& world, vote const* votes,
                                                             std::exception_ptr const& failure,
                                                             std::string const& said) {
  int const ranks = world.size();
  auto const call = [&](int rank) { return std::string(name_of(joint_call(votes[rank].call))); };
  for (int rank = 1; rank < ranks; ++rank)
    if (votes[rank].call != votes[0].call)
      throw_agreed(concat({"the ranks make different calls: rank 0 is in ", call(0), " and rank ", rank, " in ",
                           call(rank), "; let all of them make the same calls in the same order"}));
  bool const all_well = std::all_of(votes, votes + ranks, [](vote const& v) { return v.length == 0; });
  for (int rank = 1; all_well && rank < ranks; ++rank)
    if (votes[rank].content != votes[0].content)
      throw_agreed(concat({call(0), ": rank 0 has other data than rank ", rank, " (fingerprints ", votes[0].content,
                           " and ", votes[rank].content, "); give all ranks the same"}));
  auto const failed_alike = [&](vote const& v) { return v.length > 0 && v.hash == votes[0].hash; };
  bool const same = std::all_of(votes, votes + ranks, failed_alike);
  if (same) {
    agreed_failure() = failure;
    std::rethrow_exception(failure);
  }
  std::int64_t lengths[communicator::maximum_size];
  for (int rank = 0; rank < ranks; ++rank) lengths[rank] = votes[rank].length;
  auto const all = gather_texts(world, said, lengths);
  int first = 0;
  while (votes[first].length == 0) ++first;
  throw_agreed(concat({"rank ", first, ": ", all.substr(0, static_cast<std::size_t>(votes[first].length))}));
}

} // namespace detail

/// Tells all ranks how this one fared: `failure` is null where it did well. Returns the sum of the counts where all
/// did; else every rank throws the same: its own exception where all have the same sentence, or an `error` with the
/// first failing rank's. So do ranks in different calls, and ranks whose `content`, a fingerprint, differs. One
/// all-gather.
[[gnu::noinline]] inline std::int64_t agree(communicator& world, joint_call where, std::int64_t count = 0,
                                            std::exception_ptr const& failure = nullptr, std::uint64_t content = 0) {
  if (world.size() == 1) {
    if (failure) std::rethrow_exception(failure);
    return count;
  }
  world.entered(name_of(where));
  detail::agreed_failure() = nullptr;
  detail::vote votes[communicator::maximum_size];
  std::string said;
  if (failure) said = detail::sentence_of(failure).substr(0, 2000);
  if (failure && said.empty()) said = "an exception that says nothing";
  votes[world.rank()] = {static_cast<std::int64_t>(where), count, content, static_cast<std::int64_t>(said.size()),
                         detail::hash_of(said)};
  detail::gather(world, votes);
  std::int64_t sum = 0;
  bool well = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    auto const& v = votes[rank];
    sum += v.count;
    well = well && v.length == 0 && v.call == votes[0].call && v.content == votes[0].content;
  }
  if (!well) detail::throw_for(world, votes, failure, said);
  return sum;
}

/// Throws on every rank unless all of them mean to make as many passes.
inline void check_passes(communicator& world, joint_call where, std::int64_t passes) {
  agree(world, where, 0, nullptr, static_cast<std::uint64_t>(passes));
}

/// Does on each rank what concerns it alone, a count, and returns the sum of all. Where it throws on any rank all
/// throw, as `agree` says. `local` must not speak with the other ranks.
[[gnu::noinline]] inline std::int64_t agreed_sum(communicator& world, joint_call where,
                                                 function_ref<std::int64_t()> local, std::uint64_t content = 0) {
  if (world.size() == 1) return local();
  std::int64_t count = 0;
  std::exception_ptr failure;
  try {
    count = local();
  } catch (...) { failure = std::current_exception(); }
  return agree(world, where, count, failure, content);
}
/// The same without a count.
inline void agreed(communicator& world, joint_call where, function_ref<void()> local) {
  agreed_sum(world, where, [&]() -> std::int64_t { return local(), 0; });
}

/// For what is checked whole before anything is changed: `all_can()` between the two.
class agreement {
public:
  /// `where` is the call that all ranks must be in; it stands in sentences.
  agreement(communicator& world, joint_call where) : world_(world), where_(where) {}

  /// Returns when every rank has come here; throws on all of them where one has failed before.
  /// `content` is a fingerprint of what was read: it must be the same.
  void all_can(std::uint64_t content = 0) {
    asked_ = true;
    agree(world_, where_, 0, nullptr, content);
  }
  /// Runs a function that calls `all_can()`. What it throws before is told to the others.
  [[gnu::noinline]] void run(function_ref<void(agreement&)> checks_and_changes) {
    try {
      checks_and_changes(*this);
    } catch (...) {
      if (asked_ || world_.size() == 1) throw;
      agree(world_, where_, 0, std::current_exception());
    }
  }

private:
  communicator& world_;
  joint_call where_;
  bool asked_ = false;
};

/// For a `catch (...)` around what all ranks do together. An exception that all of them throw goes on its way. One that
/// the others do not have would leave them waiting for ever: it is said, and the job ends.
[[noreturn, gnu::noinline, gnu::cold]] inline void rethrow_or_end_job(communicator& world, joint_call where) {
  auto const failure = std::current_exception();
  if (world.size() == 1 || failure == detail::agreed_failure()) throw;
  if (world.all_come()) {
    detail::agreed_failure() = failure;
    std::rethrow_exception(failure);
  }
  std::fflush(stdout);
  std::fprintf(stderr, "rank %d failed in %s, and the others did not, so the job ends: %s\n", world.rank(),
               name_of(where), detail::sentence_of(failure).c_str());
  world.abort(1);
  std::_Exit(1); // some compilers do not see that a virtual function never returns
}

/// Does what all ranks do together; what this one alone throws ends the job.
[[gnu::noinline]] inline void together(communicator& world, joint_call where, function_ref<void()> f) {
  try {
    f();
  } catch (...) { rethrow_or_end_job(world, where); }
}

} // namespace constrain
