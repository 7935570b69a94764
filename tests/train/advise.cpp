#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

// The fastest strategy that fits, and advice if none fits.

namespace ct = constrain;
using constrain::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 4, .evaluation_sequences = 64}>; // evaluation needs the most memory
ct::advice advise(ct::bytes memory) { return ct::advise<task>(ct::device::cpu{}, memory); }
bool says(ct::advice const& a, char const* text) { return a.text.find(text) != std::string::npos; }

} // namespace

TEST_CASE("advise: the fastest that fits, by the plans of trainers") {
  auto const all = advise(ct::gibibytes(1));
  REQUIRE(all.table.size() == 39);
  REQUIRE(all.names.size() == 39);
  CHECK(all.names[0] == "fp32, adamw");
  using entries = ct::entries<task, ct::policies<>>;
  CHECK(all.table[0].peak == entries::memory.peak);
  CHECK(entries::other_peak > entries::step::where.end);
  CHECK(all.index >= 0);
  CHECK(all.missing == ct::bytes(0));
  for (auto const& row : all.table) {
    CHECK(row.fits);
    CHECK(row.tokens_per_second <= all.table[static_cast<std::size_t>(all.index)].tokens_per_second);
  }
  // With less memory, another strategy, which fits.
  auto least = all.table[0].peak;
  for (auto const& row : all.table) least = std::min(least, row.peak);
  auto const few = advise(least);
  REQUIRE(few.index >= 0);
  CHECK(few.table[static_cast<std::size_t>(few.index)].peak == least);
  CHECK(says(few, "does not fit"));
  CHECK(says(few, ("* is the fastest that fits: " + few.names[static_cast<std::size_t>(few.index)] + "\n").c_str()));
}

TEST_CASE("advise: what to do if nothing fits") {
  auto const all = advise(ct::gibibytes(1));
  auto least = all.table[0].peak;
  for (auto const& row : all.table) least = std::min(least, row.peak);
  auto const none = advise(least - ct::bytes(1));
  CHECK(none.index == -1);
  CHECK(none.missing == ct::bytes(1));
  CHECK(says(none, "nothing fits: the smallest plan needs 1 byte more\n"));
  CHECK(says(advise(least - ct::bytes(1000)), "nothing fits: the smallest plan needs 1000 bytes more\n"));
  CHECK(says(advise(least - ct::bytes(1536)), "nothing fits: the smallest plan needs 1.5 KiB more\n"));
  CHECK(says(none, "write fewer sequences in a micro-batch; accumulate<N> then keeps the batch size, with an optimizer "
                   "without in_backward\n"));
  CHECK(says(none, "parallel::zero<3, ranks>, with an optimizer without in_backward, shards the tensors; on CPUs, "));
  CHECK(says(none, "parallel::tensor<ranks>, with an optimizer without quantized, divides the layers\n"));
  CHECK(says(none, "write fewer .evaluation_sequences"));
  CHECK(says(none, "not implemented yet"));
  CHECK_FALSE(says(none, "the largest parameter"));
  CHECK(says(advise(ct::kibibytes(100)), "the largest parameter and its gradient in fp32 do not fit"));
}

TEST_CASE("advise: no memory is an error") {
  CHECK(sentence([] { advise(ct::bytes(0)); }) ==
        "advise: the memory is 0 bytes; give the memory of the device, for example ct::gibibytes(16)");
  CHECK(sentence([] { advise(ct::bytes(-1)); }).find("the memory is -1 byte") != std::string::npos);
}
