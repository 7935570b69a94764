#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/ref.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The type of the elements of an array from the caller.
enum class port_type : std::uint8_t {
  ids,  // std::int32_t: tokens, token types, lengths, positions, classes
  real, // float or double; inputs are stored in the type of activations, labels in fp32 or fp64
};

/// The unit for which an array from the caller has one entry. The unit gives the leading dimensions of the array's
/// shape.
enum class per : std::uint8_t {
  sequence, // [sequences]
  token,    // [sequences, tokens]
  row,      // labels only: the logits' shape without the innermost dimension
  logit,    // labels only: the logits' shape
};

/// One array that a model or an objective takes from the caller. Its shape is the dimensions of `each`, followed by
/// `features` if that is not 0.
struct port_spec {
  char const* name = "";           // a string literal; different for each port of a list
  port_type type = port_type::ids; // type of the elements
  per each = per::token;           // the leading dimensions
  std::int64_t features = 0;       // extent of one more dimension, the innermost; 0: no such dimension
  /// Whether two ports have the same declaration.
  friend constexpr bool operator==(port_spec const& a, port_spec const& b) {
    return std::string_view(a.name) == b.name && a.type == b.type && a.each == b.each && a.features == b.features;
  }
};

/// The maximum number of inputs of a model, and of labels of an objective.
inline constexpr int maximum_ports = 8;
/// The inputs of a model or the labels of an objective, in the order in which the caller passes them.
using port_specs = fixed_vector<port_spec, maximum_ports>;

/// The maximum number of ports of a program: inputs, labels and results.
inline constexpr int maximum_program_ports = 2 * maximum_ports + 8;

/// Whether the host writes or reads the tensor of a port.
enum class port_kind : std::uint8_t {
  input,  // the host writes it: an input of the model
  label,  // the host writes it: labels of the objective
  result, // the host reads it after the run
};

/// A value that the host writes before a run or reads after it.
struct port {
  port_kind kind = port_kind::result; // whether the host writes or reads it
  port_spec spec;                     // the name is unique among the ports of this kind; a result has only a name
  ref where;                          // the value
  std::int64_t limit = 0;             // integers from the host must be in [0, limit); 0: not checked
  bool ignorable = false;             // of labels: the host may pass `ignored_label` too
};

} // namespace constrain
