// When `fit` reads the result of a step: after the next step is enqueued, unless something looks at the trainer in
// between.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "temporary_directory.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using bytes = gpt<1, 1, 4, 256, 4, 2>;
using trainer = ct::trainer<bytes, device_policy, ct::launch::graph>;

ct::data::corpus const& corpus() {
  static auto const made = ct::data::text_from("the quick brown fox jumps over the lazy dog, and again and again");
  return made;
}

/// A log that notes how many steps were enqueued when the line of each step was printed.
class noting_log {
public:
  explicit noting_log(std::function<std::int64_t()> steps) : steps_(std::move(steps)) {
    file_ = ::fopencookie(this, "w", {nullptr, &noting_log::write, nullptr, nullptr});
    std::setvbuf(file_, nullptr, _IOLBF, 4096);
  }
  ~noting_log() { std::fclose(file_); }
  noting_log(noting_log const&) = delete;
  noting_log& operator=(noting_log const&) = delete;
  std::FILE* file() const { return file_; }
  std::vector<std::int64_t> late; // for each line of a step: the steps enqueued after it

private:
  static ::ssize_t write(void* self, char const* text, std::size_t size) {
    auto& log = *static_cast<noting_log*>(self);
    std::string const line(text, size);
    auto const is_step = line.rfind("step ", 0) == 0 && line.find("validation") == std::string::npos;
    if (is_step) log.late.push_back(log.steps_() - std::atoll(line.c_str() + 5));
    return static_cast<::ssize_t>(size);
  }

  std::function<std::int64_t()> steps_;
  std::FILE* file_ = nullptr;
};

/// For each step of a run: how many later steps were enqueued when its line was printed. Checks the weights of the run
/// against those of a loop of `step`.
template <class T, class... callback> std::vector<std::int64_t> lateness(ct::fit_options o, callback&&... called) {
  T t({.learning_rate = 1e-2f}, numbers), stepped({.learning_rate = 1e-2f}, numbers);
  double last = 0;
  for (auto const& batch : stepped.batches(corpus())) {
    last = stepped.step(batch).loss;
    if (stepped.steps().count() == 7) break;
  }
  noting_log log([&] { return t.steps().count(); });
  o.steps = 7, o.log = log.file();
  auto const result = ct::fit(t, corpus(), o, called...);
  std::fflush(log.file());
  CHECK(result.loss == last);
  CHECK(result.tokens_per_second > 0);
  CHECK(same_bits(weights_of(t), weights_of(stepped)));
  return log.late;
}

using counts = std::vector<std::int64_t>;

} // namespace

TEST_CASE("fit reads the result of a step after it has enqueued the next one") {
  CHECK(lateness<trainer>({}) == counts{1, 1, 1, 1, 1, 1, 0});
  CHECK(lateness<ct::trainer<bytes, device_policy>>({}) == counts{1, 1, 1, 1, 1, 1, 0});
}

TEST_CASE("fit reads the result at once where something looks at the trainer before the next step") {
  temporary_directory const directory;
  CHECK(lateness<trainer>({.validation = &corpus(), .evaluate_every = 3}) == counts{1, 1, 0, 1, 1, 0, 0});
  CHECK(lateness<trainer>({.directory = directory / "run", .save_every = 2}) == counts{1, 0, 1, 0, 1, 0, 0});
  CHECK(lateness<trainer>({.records = directory / "records"}) == counts(7, 0));
  CHECK(lateness<trainer>({}, [](ct::step_result const&) {}) == counts(7, 0));
  CHECK(lateness<ct::trainer<bytes, ct::precision::fp16, device_policy>>({}) == counts(7, 0));
  CHECK(lateness<ct::trainer<bytes>>({}) == counts(7, 0)); // on the CPU
}
