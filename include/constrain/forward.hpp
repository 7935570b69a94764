#pragma once

// Forward declarations, for headers that name these types but use no members of them.

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
