#pragma once

#include "constrain/base/error.hpp"

#include <cstdint>
#include <string_view>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// Throws `error` if `count` items of `bytes_each` bytes (at least 1) exceed this machine's physical memory. (Linux may
/// grant the allocations, and then kill the process when it writes to the memory.) `subject`: the subject of the
/// message, such as "the corpus". `item_name`: the noun for one item, in the message. `remedy`: the message's advice.
/// Does nothing if the system does not report the size of its memory.
inline void check_memory(std::string_view subject, std::int64_t count, std::int64_t bytes_each = 1,
                         std::string_view item_name = "token", std::string_view remedy = "use less data") {
  std::int64_t const pages = ::sysconf(_SC_PHYS_PAGES);
  auto const memory = pages * ::sysconf(_SC_PAGE_SIZE);
  if (memory > 0 && count > memory / bytes_each)
    throw error({subject, " has ", counted(count, item_name), " of ", counted(bytes_each, "byte"), ", more than the ",
                 memory, " bytes of this machine's memory; ", remedy});
}

} // namespace constrain::data::detail
