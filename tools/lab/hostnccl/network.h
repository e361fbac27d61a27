// Which network a communicator uses: RDMA where every rank has it, else TCP.
#pragma once

#include <memory>
#include <string>

#include "tools/lab/hostnccl/bootstrap.h"
#include "tools/lab/hostnccl/socket.h"
#include "tools/lab/hostnccl/transport.h"

namespace orrery::hostnccl {

// Bits of PeerAddress::networks.
inline constexpr uint32_t kSocketNetwork = 1;
inline constexpr uint32_t kVerbsNetwork = 2;

// What this process can use and its environment allows. kUnavailable: NCCL_NET=IB, but there is no usable device.
Result<uint32_t> usable_networks(const Settings& settings, const sockaddr_in& local);

// The best network that all ranks of the table can use; the same on each. kRefused: none.
Result<uint32_t> agree_on_network(const PeerTable& table);

// The slice size of collectives when the user has not chosen one.
uint32_t default_slice_bytes(uint32_t network);

// `listener` is bound to the own rank's PeerAddress::data.
Result<std::unique_ptr<Transport>> make_transport(uint32_t network, int rank, PeerTable table, UniqueFd listener,
                                                  const Settings& settings);

// For NCCL's lines about channels: "NET/IB/0, 2 queue pairs".
std::string network_text(uint32_t network, const SharedSettings& shared);

}  // namespace orrery::hostnccl
