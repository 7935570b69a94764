#pragma once

// Names without what is behind them, for headers that only mention a trainer or what it takes and gives.

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

struct error;
class tensor_view;
class batch_range;
struct evaluation;
struct fit_options;
struct fit_result;
struct parameter_view;
struct run_options;
struct step_result;
struct batch;
template <class... list> struct policies;
template <class task, class... list> class trainer;

namespace data {
class corpus;
}

} // namespace constrain
