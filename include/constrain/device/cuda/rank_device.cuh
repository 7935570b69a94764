#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/comm/communicator.hpp"
#include "constrain/device/cuda/check.cuh"
#include "constrain/device/cuda/device.cuh"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Identifies a CUDA device; equal on all ranks that use the device under one host name.
struct device_identity {
  std::uint64_t node = 0; // a hash of the node's host name and boot id
  char bus[32]{};         // PCI bus id

  friend bool operator==(device_identity const&, device_identity const&) = default;
};

/// Identifies device `index`, as in cudaSetDevice. Throws `error` if CUDA fails.
inline device_identity identify_device(int index) {
  device_identity d;
  char host[256]{};
  ::gethostname(host, sizeof host - 1);
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id"); // differs between nodes of the same name
  std::string const boot_id{std::istreambuf_iterator<char>(boot_file), {}};
  d.node = hash_of(host + boot_id);
  cuda_check(cudaDeviceGetPCIBusId(d.bus, sizeof d.bus, index), "get the PCI bus id");
  return d;
}

} // namespace detail

/// The index of the CUDA device of this rank. `requested`: the index, as in cudaSetDevice; -1: the first rank on a node
/// has device 0, the second rank has device 1, and so on, modulo the number of devices that this rank sees. So if each
/// rank sees only one device (CUDA_VISIBLE_DEVICES), all have index 0. Throws `error` on all ranks if a device does not
/// exist, if two ranks have the same device, or if CUDA fails, and on some ranks if the communication fails. `world`:
/// all ranks. Collective.
inline int device_of_rank(int requested, communicator& world) {
  int const rank_on_node = world.rank_on_node();
  int index = requested, count = 0;
  std::vector<detail::device_identity> identities(static_cast<std::size_t>(world.size()));
  agreed(world, joint_call::construction, [&] {
    cuda_device const probe(requested == -1 ? 0 : requested); // throws unless the device exists
    cuda_check(cudaGetDeviceCount(&count), "count the devices");
    if (requested == -1) index = rank_on_node % count;
    identities[static_cast<std::size_t>(world.rank())] = detail::identify_device(index);
  });
  if (world.size() == 1) return index;
  detail::all_gather_values(world, identities.data());
  for (int b = 1; b < world.size(); ++b)
    for (int a = 0; a < b; ++a)
      if (identities[static_cast<std::size_t>(a)] == identities[static_cast<std::size_t>(b)])
        detail::throw_agreed(concat({"device::cuda: ranks ", a, " and ", b, " of one node have the same CUDA device, ",
                                     identities[static_cast<std::size_t>(a)].bus,
                                     "; start at most as many ranks on a node as it has devices (this rank sees ",
                                     count, "), or give each rank a different `.cuda_device`"}));
  return index;
}

} // namespace constrain
