// Several micro-batches, evaluation, generation, checked mode and saved runs of trainers on 2 CUDA devices.

#include "cuda/nccl/ranks.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> std::vector<double> accumulated() {
  ct::trainer<small, ct::accumulate<2>, policies..., device_policy> t({.learning_rate = 3e-3f}, numbers);
  return train(t, 3);
}

/// The loss of an evaluation, and generated tokens, of a trainer after a step.
struct results {
  double loss = 0;
  std::vector<std::int32_t> tokens;
  friend bool operator==(results const&, results const&) = default;
};
template <class trainer> results results_of(trainer& t) {
  auto const w = tokens_for<trainer>(5);
  return {t.evaluate(w.inputs, w.labels).loss, t.generate(std::span(w.inputs).first(3), 4)};
}

void compare_entries(ct::communicator& world, std::string const& directory) {
  using sharded = ct::trainer<small, ct::parallel::zero<3, 2>, device_policy, ct::launch::graph>;
  using whole = ct::trainer<small, ct::parallel::ddp, device_policy>;
  auto checked = numbers;
  checked.checked = true;
  sharded zero({.learning_rate = 3e-3f}, numbers);
  whole ddp({.learning_rate = 3e-3f}, checked);
  check(same_bits(train(zero, 2), train(ddp, 2)), "checked mode changes the bits");
  auto const expected = results_of(ddp);
  check(results_of(zero) == expected, "evaluation or generation of shards");
  check(results_of(zero) == expected, "evaluation or generation of shards, replayed");
  zero.save(directory);
  whole again({.learning_rate = 3e-3f}, numbers);
  again.load(directory);
  check(same_bits(train(zero, 1), train(again, 1)), "a resumed run");
  world.barrier();
}

/// The communicator of all ranks, which keeps the name of the last call.
struct naming final : ct::communicator {
  ct::communicator& all;
  std::string call{};

  explicit naming(ct::communicator& world) : all(world) {}
  int rank() const override { return all.rank(); }
  int size() const override { return all.size(); }
  void all_gather(std::byte* buffer, std::int64_t const* offsets, std::int64_t const* lengths) override {
    all.all_gather(buffer, offsets, lengths);
  }
  void all_to_all(std::byte const* send, std::int64_t const* offsets, std::int64_t const* lengths, std::byte* receive,
                  std::int64_t length) override {
    all.all_to_all(send, offsets, lengths, receive, length);
  }
  void barrier() override { all.barrier(); }
  std::unique_ptr<ct::communicator> groups_of(int ranks) override { return all.groups_of(ranks); }
  std::unique_ptr<ct::communicator> strided_groups(int stride) override { return all.strided_groups(stride); }
  [[noreturn]] void abort(int status) override { all.abort(status), std::_Exit(status); }
  bool all_failed_or_exited() override { return all.all_failed_or_exited(); }
  void entered(char const* name) override { call = name; }
};

/// The first run of an entry captures it, which all ranks agree on: in the call that runs it.
void check_calls_of_captures(ct::communicator& world) {
  using sharded = ct::trainer<small, ct::parallel::zero<3, 2>, device_policy, ct::launch::graph>;
  using entries = sharded::entries;
  using runner_type = ct::runner<target, true>;
  naming ranks(world);
  runner_type runner(sharded::memory.peak, entries::scratch, runner_type::device_for(-1, world));
  runner.connect(ranks, ranks, 60, true);
  ct::step_parameters const parameters{.samples = 2, .data = &ranks, .zero = &ranks};
  runner.arena().fill(0, sharded::memory.peak.count(), 0);
  runner.run<entries::evaluate, ct::joint_call::evaluate>(parameters);
  check(ranks.call == "evaluate", "evaluate is captured in " + ranks.call);
  runner.run<entries::predict, ct::joint_call::predict>(parameters);
  check(ranks.call == "predict", "predict is captured in " + ranks.call);
  std::byte first{};
  runner.arena().read(0, &first, 1); // waits for the runs
  world.barrier();
}

} // namespace

int main() {
  ct::mpi world;
  show_devices(world.size());
  auto const ddp = accumulated<ct::parallel::ddp>();
  check(same_bits(ddp, accumulated<ct::parallel::zero<1, 2>>()), "zero<1> is not ddp");
  check(same_bits(accumulated<ct::parallel::zero<2, 2>>(), accumulated<ct::parallel::zero<3, 2>>()),
        "zero<3> is not zero<2>");
  std::string const directory = "constrain-nccl-entries";
  compare_entries(world, directory);
  check_calls_of_captures(world);
  check(on_host::still_alive() == "", "still alive: " + on_host::still_alive());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
