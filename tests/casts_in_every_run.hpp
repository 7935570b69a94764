#pragma once

#include <constrain/constrain.hpp>

namespace constrain::test {

struct no_last_pass;
/// A slot for a policy whose pass runs last.
struct last_pass {
  bool runs = false;
  friend constexpr bool operator==(last_pass const&, last_pass const&) = default;
  template <class...> using otherwise = no_last_pass;
  using rules = rule_list<>;
};
struct no_last_pass {
  using slot = last_pass;
  static constexpr slot value{};
};
/// With this policy, every run casts all parameters: its pass follows `sharded`, so no compute copies are kept. The
/// pass changes nothing.
struct casts_in_every_run {
  using slot = last_pass;
  static constexpr slot value{.runs = true};
  static constexpr auto after = pass_name::sharded;
  static constexpr program pass(program const& p, slot const&) { return p; }
};

} // namespace constrain::test
