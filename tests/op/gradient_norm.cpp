#include "op/call_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// They come after the gradients.
static_assert(ct::info_of<ct::op::gradient_norm_squared>.gradient == nullptr);
static_assert(ct::info_of<ct::op::chunk_squares>.gradient == nullptr);
static_assert(ct::info_of<ct::op::chunk_sum>.gradient == nullptr);
static_assert(ct::info_of<ct::op::clip_coefficient>.gradient == nullptr);
static_assert(ct::op::gradient_norm_squared::infer(types({f32(shape(7, 3))}), {.index = 2, .gradients = 5})
                  .outputs[0] == f64(shape(5)));
static_assert(ct::op::chunk_squares::infer(types({f32(shape(1025))}), {.tensors = 7}).outputs[0] == f64(shape(7, 2)));
static_assert(ct::op::chunk_sum::infer(types({f64(shape(2, 7, 2))}), {.index = 2, .gradients = 5}).outputs[0] ==
              f64(shape(5)));
static_assert(ct::info_of<ct::op::clip_coefficient>.infer(types({f64(shape(5))}), {}).outputs[0] == f64(shape(2)));

namespace {

std::vector<double> clipped(std::vector<double> const& squares, double limit) {
  array<double> const in(shape(static_cast<std::int64_t>(squares.size())), squares);
  array<double> out(shape(2));
  call_kernel<ct::op::clip_coefficient>(plain, in.in(), array<double>(shape{}, {limit}).in(), out.out());
  return out.values();
}

} // namespace

TEST_CASE_TEMPLATE("gradient_norm: each gradient's squares have their place", real, float, double) {
  array<real> const first(shape(2, 2), {1, 2, 3, 4}), second(shape(3), {-1, 0, 2});
  array<double> squares(shape(3));
  auto const zero = ct::pack(ct::op::squared_norm_options{.index = 0, .gradients = 3});
  auto const one = ct::pack(ct::op::squared_norm_options{.index = 1, .gradients = 3});
  call_kernel<ct::op::gradient_norm_squared>(ct::call{zero, no_parameters}, first.in(), squares.out());
  CHECK(squares.values() == std::vector<double>{30, 0, 0}); // nothing of the last run stays
  ct::call add{one, no_parameters};
  add.adds = 1;
  call_kernel<ct::op::gradient_norm_squared>(add, second.in(), squares.out());
  CHECK(squares.values() == std::vector<double>{30, 5, 0});
}

TEST_CASE("gradient_norm: floats are squared in double") {
  array<float> const g(shape(3), {1e30f, 1e30f, 1e-30f});
  array<double> squares(shape(1));
  call_kernel<ct::op::gradient_norm_squared>(plain, g.in(), squares.out());
  CHECK(squares[0] == doctest::Approx(2e60));
}

TEST_CASE_TEMPLATE("gradient_norm: bit-identical on any number of threads", real, float, double) {
  auto const g = array<real>::random(shape(10007), 1);
  double exact = 0;
  for (auto x : g.values()) exact += static_cast<double>(x) * static_cast<double>(x);
  check_same_on_all_threads([&] {
    array<double> squares(shape(1));
    call_kernel<ct::op::gradient_norm_squared>(plain, g.in(), squares.out());
    CHECK(squares[0] == doctest::Approx(exact).epsilon(1e-13));
    return squares.values();
  });
}

/// One rank of a group, which exchanges nothing.
class numbered final : public ct::communicator {
public:
  explicit numbered(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return rank_ + 1; }
  void all_gather(std::byte*, std::int64_t const*, std::int64_t const*) override {}
  void all_to_all(std::byte const*, std::int64_t const*, std::int64_t const*, std::byte*, std::int64_t) override {}
  void barrier() override {}
  std::unique_ptr<ct::communicator> groups_of(int) override { return nullptr; }
  std::unique_ptr<ct::communicator> strided_groups(int) override { return nullptr; }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }
  bool all_failed_or_exited() override { return true; }

private:
  int rank_;
};

// A stack cut over ranks as zero<3> cuts it, each rank's chunks one after another, as gather_ranks leaves them.
template <class real> double sum_of_pieces(std::vector<real> const& stack, std::int64_t tensors, std::int64_t shards) {
  ct::shard_map const map{std::ssize(stack) / tensors, shards};
  auto const chunks = ct::norm_chunks(map.stored());
  array<double> sums(shape(shards, tensors, chunks)), squares(shape(1));
  shape const stored(map.stored()), of_rank(tensors, chunks);
  for (std::int64_t rank = 0; rank < shards; ++rank) {
    std::vector<real> piece(static_cast<std::size_t>(tensors * map.stored()), real(7)); // with the padding
    for (std::int64_t t = 0; t < tensors; ++t)
      std::copy_n(stack.data() + t * map.elements + map.begin(rank), map.length(rank), piece.data() + t * map.stored());
    ct::tensor<double> const its_sums{&sums[0] + rank * of_rank.elements(), &of_rank, of_rank.elements()};
    ct::tensor<real const> const its_piece{piece.data(), &stored, std::ssize(piece)};
    numbered group(static_cast<int>(rank));
    ct::step_parameters parameters;
    parameters.zero = &group;
    auto const options = ct::pack(ct::op::chunk_squares::options{
        .tensors = tensors, .stride = map.stored(), .elements = map.elements, .shards = shards});
    call_kernel<ct::op::chunk_squares>(ct::call{options, parameters}, its_piece, its_sums);
  }
  call_kernel<ct::op::chunk_sum>(plain, sums.in(), squares.out());
  return squares[0];
}

TEST_CASE_TEMPLATE("gradient_norm: a stack in pieces has the bits of the whole", real, float, double) {
  for (std::int64_t elements : {1, 31, 1023, 1024, 1025, 2 * 1024, 5000, 9 * 1024 + 7})
    for (std::int64_t tensors : {1, 3, 700}) {
      auto const stack = array<real>::random(shape(tensors, elements), static_cast<unsigned>(elements + tensors));
      shape const one(elements);
      array<double> whole(shape(1));
      call_kernel<ct::op::gradient_norm_squared>(plain, ct::tensor<real const>{&stack[0], &one, tensors * elements},
                                                 whole.out());
      for (std::int64_t shards : {1, 2, 3, 4, 7, 16}) {
        CAPTURE(elements);
        CAPTURE(tensors);
        CAPTURE(shards);
        CHECK(sum_of_pieces(stack.values(), tensors, shards) == whole[0]);
      }
    }
}

TEST_CASE("gradient_norm: chunks are added in their order, then tensors in theirs") {
  // In double 2^54 + 1 is 2^54, and 2^54 + 3 is 2^54 + 4: what is added first shows.
  std::vector<double> stack(2 * 4 * 1024);
  stack[0] = 0x1p27, stack[1024] = 1, stack[2 * 1024] = 1, stack[3 * 1024] = 1; // the first tensor: 2^54
  stack[4 * 1024] = 1, stack[5 * 1024] = 1, stack[6 * 1024] = 1;                // the second: 3
  shape const one(4 * 1024);
  array<double> squares(shape(1));
  call_kernel<ct::op::gradient_norm_squared>(plain, ct::tensor<double const>{stack.data(), &one, 8 * 1024},
                                             squares.out());
  CHECK(squares[0] == 0x1p54 + 4);
}

TEST_CASE("gradient_norm: clipping scales what is longer, and only that") {
  CHECK(clipped({9, 16}, 0) == std::vector<double>{5, 1});
  CHECK(clipped({9, 16}, 6) == std::vector<double>{5, 1});
  CHECK(clipped({9, 16}, 2)[0] == 5);
  CHECK(clipped({9, 16}, 2)[1] == doctest::Approx(0.4).epsilon(1e-6));
  CHECK(clipped({0, 0}, 2) == std::vector<double>{0, 1});
}

TEST_CASE("gradient_norm: the scale of a finite norm is neither 0 nor a denormal") {
  for (double const norm : {5e10, 5e150}) // the quotient is a denormal, and below all denormals
    CHECK(clipped({norm * norm}, 3e-308) == std::vector<double>{norm, std::numeric_limits<double>::min()});
  CHECK(clipped({9, 16}, 1e-300)[1] == doctest::Approx(2e-301).epsilon(1e-6));
}

TEST_CASE("gradient_norm: what is not finite is skipped, clipping or not") {
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
    for (double limit : {0.0, 2.0}) {
      auto const result = clipped({9, bad, 16}, limit);
      CHECK(!std::isfinite(result[0]));
      CHECK(result[1] == 0);
    }
}

TEST_CASE("gradient_norm: a scale that overflows fp32 skips the update; the norm is then infinite") {
  array<double> squares(shape(2), {9, 16});
  auto const divided_by = [&](double loss_scale) {
    array<double> const maximum(shape{}, {0});
    array<double> out(shape(2));
    call_kernel<ct::op::clip_coefficient>(plain, squares.in(), maximum.in(), array<double>(shape{}, {loss_scale}).in(),
                                          out.out());
    return out.values();
  };
  CHECK(divided_by(0.5) == std::vector<double>{10, 2});
  CHECK(divided_by(1e-40) == std::vector<double>{std::numeric_limits<double>::infinity(), 0});
  squares[1] = std::nan("");
  CHECK(std::isnan(divided_by(1e-40)[0]));
  CHECK(divided_by(1e-40)[1] == 0);
}

TEST_CASE("gradient_norm: an infinite gradient is seen in every type") {
  array<float> const g(shape(3), {1, std::numeric_limits<float>::infinity(), 1});
  array<double> squares(shape(1));
  call_kernel<ct::op::gradient_norm_squared>(plain, g.in(), squares.out());
  CHECK(!std::isfinite(squares[0]));
}
