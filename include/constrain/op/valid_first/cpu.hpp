#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/op/valid_first/valid_first.hpp"

#include <cstdint>
#include <initializer_list>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::valid_first, cpu> {
  static void run(call const&, tensor<std::int32_t const> labels, tensor<std::int32_t> order) {
    std::int32_t* next = order.data;
    for (bool const valid : {true, false})
      for (std::int64_t row = 0; row < labels.count; ++row)
        if ((labels[row] != ignored_label) == valid) *next++ = static_cast<std::int32_t>(row);
  }
};

} // namespace constrain
