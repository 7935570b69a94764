// own error
#include <constrain/constrain.hpp>

#include <cstdint>
#include <vector>
namespace ct = constrain;

ct::data::examples read(std::vector<std::int32_t> const& tokens, std::vector<std::int32_t> const& labels) {
#ifdef CORRECT
  return {{tokens, labels}, labels};
#else
  return {{tokens, std::vector<std::int32_t>(tokens.size())}, labels}; // <- here
#endif
}
