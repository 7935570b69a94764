#pragma once

// Forward declarations. A header that only names these types can include this file instead of constrain.hpp, which is
// slower to compile.

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
class step_ticket;
struct batch;
template <class... list> struct policies;
template <class task, class... list> class trainer;
template <class task, class... list> class inference;

namespace data {
class corpus;
class examples;
}

} // namespace constrain
