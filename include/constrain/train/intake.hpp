#pragma once

#include "constrain/run/arena.hpp"
#include "constrain/train/batch.hpp"
#include "constrain/train/port_check.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The requirements of an entry program (step, evaluate, ...) for the caller's arrays.
struct batch_needs {
  plan_ports ports;         // ports of the entry program
  std::int64_t tokens = 0;  // tokens in a sequence
  bool next_tokens = false; // whether the only labels are the next tokens of the only input
  bool pads = false;        // whether a data set whose labels are all integers may be padded (`port_facts::pads`)
};

/// A batch that views the caller's arrays, whose number, types and lengths must have been checked. `caller`: the first
/// words of every error. `label_kind`: whether to shift the labels (into a copy). Throws `error` if `label_kind` is not
/// an enumerator, for invalid values, for labels that should be shifted but are not, and for labels that cannot be
/// shifted as requested.
batch batch_of_arrays(char const* caller, array_list const& inputs, array_list const& labels,
                      constrain::labels label_kind, batch_needs const& needed);

/// `batch_of_arrays` for one step. Also throws `error` if the number of arrays is wrong, or if an array has the wrong
/// type or length.
batch batch_of_step(array_list const& inputs, array_list const& labels, constrain::labels label_kind,
                    batch_needs const& needed);

/// The arrays of micro-batch `index`, as views of parts of `arrays`. `arrays`: for each port of `kind`, one array with
/// the elements of all micro-batches. `ports`: the ports of one micro-batch.
array_list micro_batch_of(plan_ports ports, port_kind kind, array_list const& arrays, std::size_t index);

/// Throws `error` unless batch `b` has a valid ticket, the arrays that a step needs and, if the length of its sequences
/// is known, `needed.tokens` tokens per sequence.
void check_batch(batch const& b, batch_needs const& needed);

/// Copies the arrays of a run into the arena, in the types of their ports, and range-checks integers, because kernels
/// do not check them. If the host can address the arena, the copy is checked instead of the caller's array, because
/// another thread could change the caller's array between copy and check.
class batch_copier {
public:
  /// `caller`: the first words of every error.
  batch_copier(char const* caller, arena& memory) : caller_(caller), memory_(memory) {}

  /// Copies an array, if a node reads it. Throws `error` if an integer is out of the port's range. Returns the number
  /// of integer labels that are not `ignored_label`; for inputs and for floating-point labels, the number of elements.
  std::int64_t operator()(plan_port const& to, array_view from) const;
  /// Copies arrays to all ports of `kind`. Returns the result for the first of these ports; 0 if there is none.
  std::int64_t operator()(plan_ports to, port_kind kind, array_list const& from) const;
  /// Copies `from`, one array for each label port, to these ports. Sets valid[i] to the number of labels other than
  /// `ignored_label` in micro-batch i of the first label port. `valid`: one element for each micro-batch in the arrays,
  /// at least one. Returns the sum. Without a label port, returns 0 and leaves `valid` unchanged.
  std::int64_t labels(plan_ports to, array_list const& from, std::span<std::int64_t> valid) const;

private:
  /// The port's copy in the arena; `from` if no node reads the port or the host cannot address the arena.
  array_view copy_of(plan_port const& to, array_view from) const;

  char const* caller_;
  arena& memory_;
};

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/intake.ipp"
#endif
