#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ct = constrain;

namespace {

/// Memory that the host reaches only by copies, and that refuses to give bytes that nobody has written.
class far_arena final : public ct::arena {
public:
  explicit far_arena(ct::bytes size)
      : arena(size), bytes_(static_cast<std::size_t>(size.count())), written_(bytes_.size()) {}
  std::byte* data() const override { return nullptr; }
  std::byte* host() const override { return nullptr; }

  mutable int reads_of_nothing = 0;

private:
  void copy_out(std::int64_t offset, void* to, std::int64_t count) const override {
    auto const first = written_.begin() + offset;
    reads_of_nothing += std::find(first, first + count, false) != first + count ? 1 : 0;
    std::memcpy(to, bytes_.data() + offset, static_cast<std::size_t>(count));
  }
  void copy_in(std::int64_t offset, void const* from, std::int64_t count) override {
    std::memcpy(bytes_.data() + offset, from, static_cast<std::size_t>(count));
    std::fill_n(written_.begin() + offset, count, true);
  }
  void set(std::int64_t offset, std::int64_t count, unsigned char value) override {
    std::memset(bytes_.data() + offset, value, static_cast<std::size_t>(count));
    std::fill_n(written_.begin() + offset, count, true);
  }

  std::vector<std::byte> bytes_;
  std::vector<bool> written_;
};

using model = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 6, .vocabulary = 11, .context = 5}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<model, ct::precision::fp16>; // with settings of its own

} // namespace

TEST_CASE("the initial values are written into memory that is not read, the same as on the CPU") {
  using entries = trainer::entries;
  auto const end = entries::step::where.persistent_end;
  far_arena far{ct::bytes(end)};
  initialize(entries::parameters.view(), 5, far, 0);
  CHECK(far.reads_of_nothing == 0);
  std::byte any;
  far.read(end - 1, &any, 1); // of the padding
  CHECK(far.reads_of_nothing == 1);
  ct::host_arena here{ct::bytes(end)};
  initialize(entries::parameters.view(), 5, here, 0);
  auto const same = [&](ct::tensor_info const& t) {
    auto const bytes = t.stored() * size_of(t.type);
    std::vector<std::byte> copy(static_cast<std::size_t>(bytes));
    far.read(t.offset, copy.data(), bytes);
    return std::memcmp(copy.data(), here.data() + t.offset, copy.size()) == 0;
  };
  for (int i = 0; i < entries::parameters.size; ++i) CHECK(same(entries::parameters.parameters[i]));
  CHECK(far.reads_of_nothing == 1);
}

TEST_CASE("a shard's padding is zero") {
  ct::tensor_info info;
  info.shape = ct::shape(3, 5);
  info.shards = 2, info.chunk = 1;
  info.initial.stddev = 1;
  auto const bytes = info.stored() * size_of(info.type);
  far_arena far{ct::bytes(bytes)};
  far.fill(0, bytes, 0xFF);
  initialize(info, 0, 3, far, 1);
  std::vector<float> values(static_cast<std::size_t>(info.stored()));
  far.read(0, values.data(), bytes);
  std::int64_t held = 0;
  info.for_each_run(1, [&](ct::stored_run const& run) { held += run.length; });
  CHECK(held < info.stored());
  for (auto i = held; i < info.stored(); ++i) CHECK(values[static_cast<std::size_t>(i)] == 0);
  CHECK(std::count(values.begin(), values.begin() + held, 0.0f) == 0);
}
