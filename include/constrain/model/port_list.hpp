#pragma once

#include "constrain/program/port.hpp"

#include <iterator>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether `list` is a range of `port_spec`.
template <class list> concept lists_ports = requires(list const& l) {
  requires std::is_convertible_v<decltype(*std::begin(l)), port_spec const&>;
};

/// The ports of a range. If there are more than `maximum_ports`, the result is empty, which a task refuses.
template <class list> constexpr port_specs copy_ports(list const& source) {
  port_specs out;
  for (port_spec const& port : source)
    if (!out.push_back(port)) return port_specs();
  return out;
}

/// Whether there is at least one port, the names are unique and not empty, every `type` and `each` is a constant of its
/// enumeration, and no `features` is negative. `are_inputs`: whether the ports are inputs, whose shapes cannot depend
/// on the logits.
constexpr bool are_valid(port_specs const& ports, bool are_inputs) {
  for (int i = 0; i < ports.size(); ++i) {
    bool const of_logits = ports[i].each == per::row || ports[i].each == per::logit;
    if (ports[i].each > per::logit || ports[i].type > port_type::real) return false;
    if (std::string_view(ports[i].name).empty() || ports[i].features < 0 || (are_inputs && of_logits)) return false;
    for (int j = 0; j < i; ++j)
      if (std::string_view(ports[i].name) == ports[j].name) return false;
  }
  return !ports.empty();
}

/// Whether a model has a function `inputs` that returns a list of ports.
template <class model> concept computes_inputs = requires(model const& m) {
  requires lists_ports<decltype(m.inputs())>;
};
/// Whether a model has a data member `inputs` that is a list of ports.
template <class model> concept has_inputs = requires(model const& m) { requires lists_ports<decltype(m.inputs)>; };

/// Whether a model lists its inputs.
template <class model> concept lists_inputs = computes_inputs<model> || has_inputs<model>;

/// The inputs of a language model: tokens and, if documents are packed, the position of each token in its document.
inline constexpr port_spec tokens_and_positions[] = {{.name = "tokens"}, {.name = "positions"}};

/// The inputs of a model that does not list them.
constexpr port_specs only_tokens() {
  port_specs ports;
  ports.push_back({.name = "tokens"});
  return ports;
}

} // namespace detail

/// The inputs of a model: its member `inputs`, a list of `port_spec` or a function that returns such a list. Without
/// this member, the only input is a port of token ids named "tokens".
template <class model> constexpr port_specs inputs_of(model const& m) {
  if constexpr (detail::computes_inputs<model>) return detail::copy_ports(m.inputs());
  else if constexpr (detail::has_inputs<model>) return detail::copy_ports(m.inputs);
  else return detail::only_tokens();
}

/// The labels of an objective: its static member `labels`, a list of `port_spec` or a function that returns such a
/// list. Without this member, the only port is named "labels" and has one class id per row of logits. Any other data
/// member or function `labels` that is not overloaded gives an empty list, which a task refuses.
template <class objective> constexpr port_specs labels_of() {
  if constexpr (requires { requires detail::lists_ports<decltype(objective::labels())>; })
    return detail::copy_ports(objective::labels());
  else if constexpr (requires { requires detail::lists_ports<decltype(*&objective::labels)>; })
    return detail::copy_ports(objective::labels);
  port_specs ports;
  if constexpr (requires { &objective::labels; }) return ports;
  ports.push_back({.name = "labels", .each = per::row});
  return ports;
}

} // namespace constrain
