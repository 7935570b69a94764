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

// Collective error handling: an error on one rank is thrown on all ranks, with the same sentence, so that none of them
// waits forever for the others.

namespace constrain::inline CONSTRAIN_VARIANT {

/// The collective calls of the library. Each exchange carries its call, so that ranks in different calls are detected.
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

/// The call's name in error sentences.
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

/// The last exception that all ranks agreed to throw, per thread.
inline std::exception_ptr& agreed_failure() {
  static thread_local std::exception_ptr agreed;
  return agreed;
}

/// All-gather of one value per rank: all[r] becomes rank r's value; this rank's is already set.
template <class type> void gather(communicator& world, type* all) {
  std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = rank * static_cast<std::int64_t>(sizeof(type));
    lengths[rank] = sizeof(type);
  }
  world.all_gather(reinterpret_cast<std::byte*>(all), offsets, lengths);
}

/// All-gather of texts, concatenated in rank order; `lengths`: the length of each rank's text.
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

/// FNV-1a hash, 64 bits.
inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// An exception's `what()`.
inline std::string sentence_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) { return e.what(); } catch (...) {
    return "an exception that says nothing";
  }
}

/// Throws an `error` that every rank throws too.
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_agreed(std::string sentence) {
  agreed_failure() = std::make_exception_ptr(error(std::move(sentence)));
  std::rethrow_exception(agreed_failure());
}

/// A rank's message in an exchange.
struct vote {
  std::int64_t call = 0, count = 0;
  std::uint64_t content = 0; // fingerprint of the data that this rank reads (corpus, files)
  std::int64_t length = 0;   // of this rank's error sentence; 0: no error
  std::uint64_t hash = 0;    // of that sentence
};

/// Throws on every rank: for ranks in different calls, with different content, or with an error.
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

/// Shares this rank's outcome with all ranks: `failure` is its exception, or null. If no rank failed, returns the sum
/// of all `count`s. Otherwise every rank throws: its own exception if all sentences are the same, else an `error` with
/// the sentence of the first failing rank. Also throws if ranks are in different calls or their `content` fingerprints
/// differ. Collective: one all-gather.
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

/// Throws `error` on every rank unless all ranks are about to make the same number of passes. Collective.
inline void check_passes(communicator& world, joint_call where, std::int64_t passes) {
  agree(world, where, 0, nullptr, static_cast<std::uint64_t>(passes));
}

/// Calls `local` on each rank and returns the sum of its results over all ranks. If it throws on any rank, all ranks
/// throw, as in `agree`. `local` must not communicate. Collective.
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
/// The same for a function without a result.
inline void agreed(communicator& world, joint_call where, function_ref<void()> local) {
  agreed_sum(world, where, [&]() -> std::int64_t { return local(), 0; });
}

/// Two-phase changes on all ranks: first every rank checks, then `all_can()`, then every rank changes its state. If a
/// check fails on one rank, all ranks throw and none has changed anything.
class agreement {
public:
  agreement(communicator& world, joint_call where) : world_(world), where_(where) {}

  /// Returns once all ranks have passed their checks; throws on all ranks if one has failed. `content`: fingerprint of
  /// what was read, which must be equal on all ranks. Collective.
  void all_can(std::uint64_t content = 0) {
    asked_ = true;
    agree(world_, where_, 0, nullptr, content);
  }
  /// Runs a function that calls `all_can()` once. An exception before that call is thrown on all ranks.
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

/// For a `catch (...)` around collective code. Rethrows an exception that all ranks throw. An exception on this rank
/// only would leave the others waiting forever: it is printed, and the job is aborted.
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
  std::_Exit(1); // some compilers ignore [[noreturn]] on virtual functions
}

/// Runs collective code; an exception on this rank only aborts the job.
[[gnu::noinline]] inline void together(communicator& world, joint_call where, function_ref<void()> f) {
  try {
    f();
  } catch (...) { rethrow_or_end_job(world, where); }
}

} // namespace constrain
