#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/comm/communicator.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

// Collective error handling: an error on one rank is thrown on all ranks or ends the job, so that no rank waits forever
// for other ranks.

namespace constrain::inline CONSTRAIN_VARIANT {

/// The library's collective calls in which ranks exchange outcomes. Each rank also sends its current call, so that
/// ranks in different calls are detected.
enum class joint_call : std::int64_t {
  construction, // of a trainer or an inference object
  step,         // step and enqueue
  evaluate,
  predict,
  generate,
  save,
  load,
  resume,
  pretrained, // load_pretrained
  fit,
  compare,
  set, // changes a setting
  scale_learning_rate,
  question // in_any_rank
};

/// The call's name in error messages.
constexpr char const* name_of(joint_call c) {
  constexpr char const* names[] = {"the constructor",
                                   "step",
                                   "evaluate",
                                   "predict",
                                   "generate",
                                   "save",
                                   "load",
                                   "resume",
                                   "load_pretrained",
                                   "fit",
                                   "compare",
                                   "set",
                                   "scale_learning_rate",
                                   "in_any_rank"};
  return names[static_cast<int>(c)];
}

namespace detail {

/// All-gather of one value per rank: values[r] becomes rank r's value. `values` has `world.size()` elements; the caller
/// must have set values[world.rank()]. `type` must be trivially copyable.
template <class type> void all_gather_values(communicator& world, type* values) {
  std::int64_t offsets[communicator::maximum_size], lengths[communicator::maximum_size];
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = rank * static_cast<std::int64_t>(sizeof(type));
    lengths[rank] = sizeof(type);
  }
  world.all_gather(reinterpret_cast<std::byte*>(values), offsets, lengths);
}

/// All-gather of strings: returns the strings of all ranks, concatenated in rank order. `text`: this rank's string.
/// `lengths`: the length of each rank's string in bytes; `world.size()` elements.
std::string all_gather_texts(communicator& world, std::string_view text, std::int64_t const* lengths);

/// The 64-bit FNV-1a hash of the bytes of `text`.
std::uint64_t hash_of(std::string_view text);

/// The last exception of this thread that `rethrow_or_end_job` may rethrow: all ranks agreed to throw it, or every
/// other rank has failed or is exiting. Null: none. The pointer becomes null when several ranks exchange their outcomes
/// (`agree`, `check_ranks_agree`), and when an exception leaves `run_user_code`.
[[gnu::cold]] std::exception_ptr& agreed_failure();

/// Returns `f()`. `f` is the user's code inside a collective call. An exception that leaves `f` counts as this rank's
/// own, even if all ranks have agreed to throw the exception in a call that `f` makes: the other ranks may have caught
/// it.
template <class function> decltype(auto) run_user_code(function const& f) try { return f(); } catch (...) {
  agreed_failure() = nullptr;
  throw;
}

/// Throws an `error` with the text `message`, and records for `rethrow_or_end_job` that all ranks agreed to throw it.
/// The caller must ensure that every rank throws.
[[noreturn, gnu::cold]] void throw_agreed(std::string message);

/// The data that each rank sends in `agree`. In `check_ranks_agree`, `length` and `hash` are those of a fingerprint's
/// text, not of an error message.
struct vote {
  std::int64_t call = 0, count = 0; // call: a `joint_call`; count: this rank's term of the sum that `agree` returns
  std::uint64_t content = 0;        // must be equal on all ranks; for example, a hash of the data read
  std::int64_t length = 0;          // length of this rank's error message in bytes; 0: no error
  std::uint64_t hash = 0;           // hash of the error message
};

/// Throws the error for `votes` that are not unanimous: ranks are in different calls, have different `content`, or
/// failed. `votes`: the votes of all ranks, `world.size()` elements. `failure`: this rank's exception, or null.
/// `message`: the message of `failure`; empty if `failure` is null. Collective.
[[noreturn, gnu::cold]] void throw_disagreement(communicator& world, vote const* votes,
                                                std::exception_ptr const& failure, std::string const& message);

} // namespace detail

/// Shares this rank's outcome with all ranks. `call`: the library call that this rank is in. `failure`: this rank's
/// exception, or null. If no rank failed, returns the sum of `count` over all ranks. Otherwise every rank throws: its
/// own exception if all ranks failed with the same message (its first 2000 bytes are compared), else an `error` with
/// the number and the message of the lowest rank that failed (at most 2000 bytes of the message). Also throws if ranks
/// are in different calls, or if their `content` (such as a hash of the data read) differs. Collective: one all-gather,
/// and at most one more if ranks failed.
std::int64_t agree(communicator& world, joint_call call, std::int64_t count = 0,
                   std::exception_ptr const& failure = nullptr, std::uint64_t content = 0);

/// Calls `local` on each rank and returns the sum of the results over all ranks. If `local` throws on any rank, all
/// ranks throw, as in `agree`. `local` must not communicate. `call`, `content`: as in `agree`. Collective.
std::int64_t agreed_sum(communicator& world, joint_call call, function_ref<std::int64_t()> local,
                        std::uint64_t content = 0);
/// Like `agreed_sum`, for a function without a result.
inline void agreed(communicator& world, joint_call call, function_ref<void()> local) {
  agreed_sum(world, call, [&]() -> std::int64_t { return local(), 0; });
}

/// A two-phase state change on all ranks: every rank checks, calls `all_can()`, and then changes its state. If a check
/// fails on one rank, all ranks throw and no rank changes its state.
class agreement {
public:
  /// `call`: the call that all ranks must be in; errors name it.
  agreement(communicator& world, joint_call call) : world_(world), call_(call) {}

  /// Returns when all ranks have passed their checks; throws on all ranks if a check has failed on any rank. `content`:
  /// as in `agree`. Collective.
  void all_can(std::uint64_t content = 0);
  /// The number of ranks.
  int size() const { return world_.size(); }
  /// Calls `checks_and_changes` with this object; the function must call `all_can()` once. An exception before that
  /// call makes all ranks throw. A later exception is thrown only on the rank where it occurs. Call `run` at most once
  /// per object.
  void run(function_ref<void(agreement&)> checks_and_changes);

private:
  communicator& world_;
  joint_call call_;
  bool called_all_can_ = false;
};

/// Call this function in a `catch (...)` around collective code. It rethrows this rank's exception if all ranks have
/// agreed to throw it, or if all other ranks also throw or exit within a few seconds. Otherwise the other ranks would
/// wait for this rank in vain, so the function prints the exception and aborts the job. With a single rank, it always
/// rethrows. `call`: the library call, for the message.
[[noreturn, gnu::cold]] void rethrow_or_end_job(communicator& world, joint_call call);

/// Calls `f`, which may communicate. If `f` throws, calls `rethrow_or_end_job`. `call`: as in that function.
void run_or_end_job(communicator& world, joint_call call, function_ref<void()> f);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/comm/agreement.ipp"
#endif
