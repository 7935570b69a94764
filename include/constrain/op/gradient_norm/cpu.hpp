#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/collective/shard_map.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::square_sum, cpu> {
  template <class real> static void run(call const& c, tensor<real const> gradient, tensor<double> squares) {
    auto const element = [=](std::int64_t i) { return static_cast<double>(gradient[i]); };
    // The first gradient of a run defines the whole output, as every accumulator's first write does.
    if (!c.add_to(0))
      for (std::int64_t i = 0; i < squares.count; ++i) squares[i] = 0;
    auto& total = squares[c.options.integer[0]];
    if (c.options.integer[3] == 0) {
      total = sum(gradient.count, element);
      return;
    }
    // As the ranks of a sharded run would: each its pieces of all instances, then the ranks in their order.
    shard_map const map{c.options.integer[2], c.numbers.world->size()};
    auto const instances = gradient.count / map.elements;
    for (std::int64_t rank = 0; rank < map.shards; ++rank) {
      double const part = sum(instances * map.stored(), [=](std::int64_t i) {
        auto const k = rank * map.stored() + i % map.stored();
        return k < map.elements ? element(i / map.stored() * map.elements + k) : 0.0;
      });
      total = rank == 0 ? part : total + part;
    }
  }

private:
  /// The sum of squares of `count` elements, in as many chunks whatever the threads, each summed in double. A chunk is read
  /// in several places at once: more of the memory is on its way than along one row of addresses.
  template <class function> static double sum(std::int64_t count, function const& element) {
    constexpr std::int64_t chunks = 64, places = 8;
    // One rounding a step, said aloud: whether a compiler contracts would depend on `element`, and ranks must agree.
    auto const add_square = [&](std::int64_t i, double total) {
      double const g = element(i);
      return math::multiply_add(g, g, total);
    };
    double partial[chunks]{};
    parallel_for(chunks, [&](std::int64_t chunk) {
      auto const begin = count * chunk / chunks, end = count * (chunk + 1) / chunks, apart = (end - begin) / places;
      partial[chunk] = ordered_sum<double>(begin, begin + apart, [&](std::int64_t i) {
        double total = 0;
        for (std::int64_t place = 0; place < places; ++place) total = add_square(i + place * apart, total);
        return total;
      }) + ordered_sum<double>(begin + places * apart, end, [&](std::int64_t i) { return add_square(i, 0); });
    });
    double total = 0;
    for (double p : partial) total += p;
    return total;
  }
};

template <> struct kernel<op::clip, cpu> {
  static void run(call const& c, tensor<double const> squares, tensor<double> clip) {
    double sum = 0;
    for (std::int64_t i = 0; i < squares.count; ++i) sum += squares[i];
    double const norm = math::sqrt(sum);
    double const limit = c.numbers.clip_norm;
    clip[0] = norm;
    clip[1] = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
    if (!math::finite(norm)) clip[1] = 0;
  }
};

} // namespace constrain
