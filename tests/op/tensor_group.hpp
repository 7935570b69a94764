#pragma once

#include <constrain/constrain.hpp>

#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace constrain::test {

/// A tensor group whose ranks are threads of this process.
class tensor_group {
public:
  /// Calls f(parameters) on `ranks` threads; `parameters.tensor` is the group, of which each thread has another rank.
  template <class function> static void run(int ranks, function const& f) {
    tensor_group group(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&group, &f, r] {
        member rank(group, r);
        step_parameters parameters;
        parameters.tensor = &rank;
        f(parameters);
      });
    for (auto& t : threads) t.join();
  }

private:
  explicit tensor_group(int ranks) : meeting(ranks), data(static_cast<std::size_t>(ranks)) {}

  class member final : public communicator {
  public:
    member(tensor_group& group, int rank) : group_(group), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(group_.data.size()); }
    void all_gather(std::byte* all, std::int64_t const* offsets, std::int64_t const* lengths) override {
      share(all, [&](int r, std::byte const* of) {
        std::memcpy(all + offsets[r], of + offsets[r], static_cast<std::size_t>(lengths[r]));
      });
    }
    void all_to_all(std::byte const* send, std::int64_t const* offsets, std::int64_t const* lengths, std::byte* receive,
                    std::int64_t length) override {
      share(send, [&](int r, std::byte const* of) {
        std::memcpy(receive + r * length, of + offsets[rank_], static_cast<std::size_t>(lengths[rank_]));
      });
      std::memcpy(receive + rank_ * length, send + offsets[rank_], static_cast<std::size_t>(lengths[rank_]));
    }
    void barrier() override { group_.meeting.arrive_and_wait(); }
    std::unique_ptr<communicator> groups_of(int) override { return nullptr; }
    std::unique_ptr<communicator> strided_groups(int) override { return nullptr; }
    [[noreturn]] void abort(int status) override { std::_Exit(status); }
    bool all_failed_or_exited() override { return true; }

  private:
    /// Calls take(r, data of r) for all other ranks, when all of them have come with their `mine`.
    template <class function> void share(std::byte const* mine, function const& take) {
      group_.data[static_cast<std::size_t>(rank_)] = mine;
      barrier();
      for (int r = 0; r < size(); ++r)
        if (r != rank_) take(r, group_.data[static_cast<std::size_t>(r)]);
      barrier();
    }

    tensor_group& group_;
    int rank_;
  };

  std::barrier<> meeting;
  std::vector<std::byte const*> data; // of each rank
};

/// This rank's columns of a matrix: `columns` of them, filled with zeros behind the last one.
template <class stored>
std::vector<stored> columns_of(std::vector<stored> const& matrix, std::int64_t rows, int rank, std::int64_t columns) {
  auto const all = std::ssize(matrix) / rows;
  std::vector<stored> part;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = rank * columns; i < (rank + 1) * columns; ++i)
      part.push_back(i < all ? matrix[static_cast<std::size_t>(row * all + i)] : stored(0));
  return part;
}

} // namespace constrain::test
