// RDMA devices of this process: opened once, at the first communicator that may use one, and never closed, like NCCL's.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "tools/lab/hostnccl/settings.h"
#include "tools/lab/hostnccl/verbs_library.h"
#include "tools/lab/hostnccl/verbs_plan.h"

namespace orrery::hostnccl {

// Set by the device's event thread to an ibv_event_type that ends a queue pair, completion queue or device; -1: none.
// The context of every queue pair and completion queue points to its connection's.
using VerbsFault = std::atomic<int>;

// One open device. A thread ("NCCL IbAsync N") waits for its asynchronous events.
struct VerbsDevice {
  const VerbsLibrary* verbs = nullptr;
  std::string name;
  size_t index = 0;  // among those that are open
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  VerbsFault fault{-1};
};

// An active port and the GID to use on it. A value; the device outlives everything.
struct VerbsPort {
  VerbsDevice* device = nullptr;
  uint8_t number = 1;
  ibv_port_attr attributes{};
  int gid_index = 0;
  Gid gid{};

  bool is_ethernet() const { return attributes.link_layer == IBV_LINK_LAYER_ETHERNET; }
  std::string text() const;  // "mlx5_0:1/RoCE"
};

// The port that NCCL_IB_HCA admits and that carries `local`, else the first admitted one. kNotFound: no libibverbs or
// no device at all; kUnavailable: they are there, but not usable: the message says why.
Result<VerbsPort> choose_verbs_port(const VerbsSettings& settings, const sockaddr_in& local);

}  // namespace orrery::hostnccl
