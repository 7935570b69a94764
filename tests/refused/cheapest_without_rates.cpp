// refused: cheapest, advise: ct::rates_of for the device's kernel tag lacks a rate that the strategy needs
// shows: with_rates_of
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct own_tag : ct::cpu {};
struct own_device {
  using slot = ct::slot_of::device;
  using target = own_tag;
  static constexpr slot value{};
};
#ifdef CORRECT
template <> inline constexpr ct::device_rates ct::rates_of<own_tag> = ct::rates_of<ct::cpu>;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using strategies = ct::cheapest<ct::mebibytes(64), task, ct::policies<own_device>>;
static_assert(strategies::table[0].fits); // <- here
