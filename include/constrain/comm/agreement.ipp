#pragma once

#include "constrain/comm/agreement.hpp"

#include "constrain/base/error.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::exception_ptr& agreed_failure() {
  static thread_local std::exception_ptr agreed;
  return agreed;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string all_gather_texts(communicator& world, std::string_view text,
                                                            std::int64_t const* lengths) {
  std::int64_t offsets[communicator::maximum_size];
  std::int64_t end = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = end;
    end += lengths[rank];
  }
  std::string texts(static_cast<std::size_t>(end), ' ');
  text.copy(texts.data() + offsets[world.rank()], text.size());
  world.all_gather(reinterpret_cast<std::byte*>(texts.data()), offsets, lengths);
  return texts;
}

[[gnu::cold]] CONSTRAIN_INLINE std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// The `what()` of an exception (not null), or a fixed text if the exception has none or an empty one.
[[gnu::cold]] CONSTRAIN_INLINE std::string message_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    if (*e.what() != '\0') return e.what();
  } catch (...) {}
  return "an exception without a message";
}

[[gnu::cold]] CONSTRAIN_INLINE void throw_agreed(std::string message) {
  agreed_failure() = std::make_exception_ptr(error(std::move(message)));
  std::rethrow_exception(agreed_failure());
}

/// The error's text if rank 0 and rank `rank` pass different `content` in the call `call`.
[[gnu::cold]] CONSTRAIN_INLINE std::string difference_text(joint_call call, int rank, std::uint64_t content_of_rank_0,
                                                           std::uint64_t content_of_rank) {
  switch (call) {
  case joint_call::evaluate:
  case joint_call::predict:
    return concat({name_of(call), ": the number of samples or micro-batches is ", content_of_rank_0, " on rank 0 and ",
                   content_of_rank, " on rank ", rank, "; pass the same number on all ranks"});
  case joint_call::generate:
    return concat({"generate: the number of tokens to generate is ", content_of_rank_0, " on rank 0 and ",
                   content_of_rank, " on rank ", rank, "; pass the same number on all ranks"});
  case joint_call::load:
  case joint_call::pretrained:
    return concat({name_of(call), ": rank 0 and rank ", rank,
                   " read different files; give all ranks the same path on a file system that they share, or equal "
                   "copies"});
  default:
    return concat({name_of(call), ": the batches of rank 0 and rank ", rank,
                   " come from different data sets, or from different positions in one; on all ranks, pass the same "
                   "batches of the same data set with the same tail, or pass arrays on all ranks"});
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void throw_disagreement(communicator& world, vote const* votes,
                                                       std::exception_ptr const& failure, std::string const& message) {
  int const ranks = world.size();
  auto const call_name = [&](int rank) { return std::string(name_of(joint_call(votes[rank].call))); };
  for (int rank = 1; rank < ranks; ++rank)
    if (votes[rank].call != votes[0].call)
      throw_agreed(concat({"the ranks make different calls: rank 0 is in ", call_name(0), " and rank ", rank, " in ",
                           call_name(rank), "; make the same calls in the same order on all ranks"}));
  bool const none_failed = std::all_of(votes, votes + ranks, [](vote const& v) { return v.length == 0; });
  for (int rank = 1; none_failed && rank < ranks; ++rank)
    if (votes[rank].content != votes[0].content)
      throw_agreed(difference_text(joint_call(votes[0].call), rank, votes[0].content, votes[rank].content));
  auto const failed_alike = [&](vote const& v) { return v.length > 0 && v.hash == votes[0].hash; };
  bool const all_failed_alike = std::all_of(votes, votes + ranks, failed_alike);
  if (all_failed_alike) {
    agreed_failure() = failure;
    std::rethrow_exception(failure);
  }
  std::int64_t lengths[communicator::maximum_size];
  for (int rank = 0; rank < ranks; ++rank) lengths[rank] = votes[rank].length;
  auto const messages = all_gather_texts(world, message, lengths);
  int first = 0;
  while (votes[first].length == 0) ++first;
  throw_agreed(concat({"rank ", first, ": ", messages.substr(0, static_cast<std::size_t>(votes[first].length))}));
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t agree(communicator& world, joint_call call, std::int64_t count,
                                                  std::exception_ptr const& failure, std::uint64_t content) {
  if (world.size() == 1) {
    if (failure) std::rethrow_exception(failure);
    return count;
  }
  world.entered(name_of(call));
  detail::agreed_failure() = nullptr;
  detail::vote votes[communicator::maximum_size];
  std::string message;
  if (failure) message = detail::message_of(failure).substr(0, 2000);
  votes[world.rank()] = {static_cast<std::int64_t>(call), count, content, static_cast<std::int64_t>(message.size()),
                         detail::hash_of(message)};
  detail::all_gather_values(world, votes);
  std::int64_t sum = 0;
  bool unanimous = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    auto const& v = votes[rank];
    sum += v.count;
    unanimous = unanimous && v.length == 0 && v.call == votes[0].call && v.content == votes[0].content;
  }
  if (!unanimous) detail::throw_disagreement(world, votes, failure, message);
  return sum;
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t agreed_sum(communicator& world, joint_call call,
                                                       function_ref<std::int64_t()> local, std::uint64_t content) {
  if (world.size() == 1) return local();
  std::int64_t count = 0;
  std::exception_ptr failure;
  try {
    count = local();
  } catch (...) { failure = std::current_exception(); }
  return agree(world, call, count, failure, content);
}

[[gnu::cold]] CONSTRAIN_INLINE void agreement::all_can(std::uint64_t content) {
  called_all_can_ = true;
  agree(world_, call_, 0, nullptr, content);
}

[[gnu::cold]] CONSTRAIN_INLINE void agreement::run(function_ref<void(agreement&)> checks_and_changes) {
  try {
    checks_and_changes(*this);
  } catch (...) {
    if (called_all_can_ || world_.size() == 1) throw;
    agree(world_, call_, 0, std::current_exception());
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void rethrow_or_end_job(communicator& world, joint_call call) {
  auto const failure = std::current_exception();
  if (world.size() == 1 || failure == detail::agreed_failure()) throw;
  if (world.all_failed_or_exited()) {
    detail::agreed_failure() = failure;
    std::rethrow_exception(failure);
  }
  std::fflush(stdout);
  std::fprintf(stderr, "rank %d failed in %s, but not every rank did, so the job ends: %s\n", world.rank(),
               name_of(call), detail::message_of(failure).c_str());
  world.abort(1);
  std::_Exit(1); // some compilers ignore [[noreturn]] on virtual functions
}

[[gnu::cold]] CONSTRAIN_INLINE void run_or_end_job(communicator& world, joint_call call, function_ref<void()> f) {
  try {
    f();
  } catch (...) { rethrow_or_end_job(world, call); }
}

} // namespace constrain
