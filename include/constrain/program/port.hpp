#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/ref.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What the elements of an array from the caller are.
enum class port_type : std::uint8_t {
  ids,  // std::int32_t: tokens, token types, lengths, classes
  real, // float or double; inputs are stored in the precision's type, labels in fp32 or fp64
};

/// What has one entry in an array from the caller: the leading dimensions of its shape.
enum class per : std::uint8_t {
  sequence, // [sequences]
  token,    // [sequences, tokens]
  row,      // labels only: the logits' shape without the innermost dimension
  logit,    // labels only: the logits' shape
};

/// One array that a model or an objective takes from the caller. Without `features` its shape is that of `each`.
struct port_spec {
  char const* name = "";           // for messages: a string literal
  port_type type = port_type::ids; // what the elements are
  per each = per::token;           // the leading dimensions
  std::int64_t features = 0;       // extent of one more dimension, the innermost; 0: no such dimension
  /// Whether two ports are declared alike.
  friend constexpr bool operator==(port_spec const& a, port_spec const& b) {
    return std::string_view(a.name) == b.name && a.type == b.type && a.each == b.each && a.features == b.features;
  }
};

/// The most inputs of a model, and the most labels of an objective.
inline constexpr int maximum_ports = 8;
/// The inputs of a model or the labels of an objective, in the order of the parameters.
using port_specs = fixed_vector<port_spec, maximum_ports>;

/// The most ports of a program: inputs, labels and results.
inline constexpr int maximum_program_ports = 2 * maximum_ports + 8;

/// Who writes and who reads the tensor of a port.
enum class port_kind : std::uint8_t {
  input,  // the host writes it: an input of the model
  label,  // the host writes it: labels of the objective
  result, // the host reads it after the run
};

/// A value that the host writes before a run or reads after it.
struct port {
  port_kind kind = port_kind::result; // who writes it and who reads it
  port_spec spec;                     // its name, unique among the ports of its kind; of an input or label, all else
  ref where;                          // the value
  std::int64_t limit = 0;             // integers from the host are in [0, limit); 0: not checked
  bool ignorable = false;             // of labels: the host may pass `ignored_label` too
};

} // namespace constrain
