#pragma once

#include "constrain/op/update/update.hpp"
#include "constrain/policy/accumulate.hpp"
#include "constrain/policy/attention.hpp"
#include "constrain/policy/checkpoint.hpp"
#include "constrain/policy/device.hpp"
#include "constrain/policy/fusion.hpp"
#include "constrain/policy/launch.hpp"
#include "constrain/policy/optimizer/adamw.hpp"
#include "constrain/policy/optimizer/sgd.hpp"
#include "constrain/policy/parallel.hpp"
#include "constrain/policy/precision.hpp"
#include "constrain/policy/rules.hpp"
#include "constrain/policy/slot.hpp"
#include "constrain/program/type_name.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The policy of each slot: the first of the list that sits in it, else the default.
template <class... list> struct chosen {
  using precision = typename find_policy<slot_of::precision, constrain::precision::fp32, list...>::type;
  using optimizer = typename find_policy<slot_of::optimizer, constrain::optimizer::adamw, list...>::type;
  using accumulation = typename find_policy<slot_of::accumulation, accumulate<1>, list...>::type;
  using checkpointing = typename find_policy<slot_of::checkpointing, checkpoint::none, list...>::type;
  using parallelism = typename find_policy<slot_of::parallelism, parallel::none, list...>::type;
  using device = typename find_policy<slot_of::device, constrain::device::cpu, list...>::type;
  using launching = typename find_policy<slot_of::launching, launch::eager, list...>::type;
  using attention = typename find_policy<slot_of::attention, constrain::attention::automatic<device>, list...>::type;
  using fusion = typename find_policy<slot_of::fusion, constrain::fusion::standard<device>, list...>::type;
};

} // namespace detail

/// Whether the kernels can call the optimizer's `update`. (nvcc does not take the address of a template here.)
template <class optimizer>
concept has_update = requires(float weight, typename optimizer::template state<float>& s) {
  optimizer::template update<float>(weight, weight, s, {}, optimizer_step{});
};

/// What a list of policies says, whether or not the rules allow it.
template <class... list> constexpr composition composition_of() {
  using chosen = detail::chosen<list...>;
  using optimizer = typename chosen::optimizer;
  composition c;
  c.precisions = count_in_slot<slot_of::precision, list...>;
  c.optimizers = count_in_slot<slot_of::optimizer, list...>;
  c.accumulations = count_in_slot<slot_of::accumulation, list...>;
  c.checkpointings = count_in_slot<slot_of::checkpointing, list...>;
  c.parallelisms = count_in_slot<slot_of::parallelism, list...>;
  c.fusions = count_in_slot<slot_of::fusion, list...>;
  c.unknown = count_in_slot<slot_of::unknown, list...>;
  c.micro_batches = chosen::accumulation::micro_batches;
  c.checkpoint_every = chosen::checkpointing::trips;
  c.checkpoints = !std::is_same_v<typename chosen::checkpointing, checkpoint::none>;
  c.distributed = chosen::parallelism::distributed;
  c.shards = chosen::parallelism::shards;
  if constexpr (requires { chosen::parallelism::stage; }) c.zero_stage = chosen::parallelism::stage;
#if !defined(CONSTRAIN_WITH_MPI)
  c.has_mpi = false;
#endif
  c.devices = count_in_slot<slot_of::device, list...>;
  c.launches = count_in_slot<slot_of::launching, list...>;
  c.cuda = chosen::device::is_cuda;
  c.architecture = chosen::device::capability;
  c.records = chosen::launching::records;
  c.attentions = count_in_slot<slot_of::attention, list...>;
  c.tiled_attention = chosen::attention::tiled;
  c.fuses = chosen::fusion::fuses;
#if !defined(CONSTRAIN_WITH_CUDA)
  c.has_cuda = !c.cuda;
#endif
  c.optimizer_has_state = requires { typename optimizer::template state<float>; };
  if constexpr (requires { typename optimizer::template state<float>; })
    c.optimizer_has_update = has_update<optimizer>;
  return c;
}

/// A list of policies, in any order, each slot at most once; what is not said has its default.
template <class... list> struct policies {
  using precision = typename detail::chosen<list...>::precision;
  using optimizer = typename detail::chosen<list...>::optimizer;
  using accumulation = typename detail::chosen<list...>::accumulation;
  using checkpointing = typename detail::chosen<list...>::checkpointing;
  using parallelism = typename detail::chosen<list...>::parallelism;
  using device = typename detail::chosen<list...>::device;
  using launching = typename detail::chosen<list...>::launching;
  using attention = typename detail::chosen<list...>::attention;
  using fusion = typename detail::chosen<list...>::fusion;
  using target = typename device::target;

  static constexpr constrain::composition composition() { return composition_of<list...>(); }

  static_assert(composition_is_legal<composition()>::value);

  /// "fp32, adamw, accumulate<4>, checkpoint::every<2>"
  static std::string name() {
    std::string text = concat({precision::name, ", ", optimizer_name()});
    if (accumulation::micro_batches > 1) text += concat({", accumulate<", accumulation::micro_batches, ">"});
    if (checkpointing::trips > 0) text += concat({", checkpoint::every<", checkpointing::trips, ">"});
    if constexpr (parallelism::distributed) {
      text += concat({", ", parallelism::name});
      if constexpr (requires { parallelism::stage; })
        text += concat({"<", parallelism::stage, ", ", parallelism::shards, ">"});
    }
    if constexpr (device::is_cuda) text += concat({", ", device::name, "<sm<", device::capability, ">>"});
    if constexpr (!std::is_same_v<attention, constrain::attention::automatic<device>>) text += concat({", ", attention::name});
    if constexpr (!std::is_same_v<fusion, constrain::fusion::standard<device>>) text += concat({", ", fusion::name});
    if constexpr (launching::records) text += concat({", ", launching::name});
    return text;
  }

  /// The optimizer's `name`, else that of its type. It tells two optimizers apart where a run is saved and taken up; a
  /// control character, which could command a terminal, is shown as '?'.
  static std::string optimizer_name() {
    std::string name;
    if constexpr (requires { optimizer::name; }) name = optimizer::name;
    if (name.empty()) name = type_name<optimizer>();
    for (char& c : name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return name;
  }

  /// What the optimizer keeps of each weight: "2 x fp32".
  static std::string optimizer_state() {
    return concat({op::state_fields<optimizer>(), " x ", (precision::master == dtype::f64 ? "fp64" : "fp32")});
  }
  /// The fields of its state, "momentum, variance", where its `state_names` says them.
  static std::string optimizer_state_names() {
    std::string names;
    if constexpr (requires { optimizer::state_names; })
      for (auto const& name : optimizer::state_names) names += (names.empty() ? "" : ", ") + std::string(name);
    return names;
  }
};

} // namespace constrain
