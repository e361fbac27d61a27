#include "tools/lab/hostnccl/network.h"

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/transport_tcp.h"
#include "tools/lab/hostnccl/transport_verbs.h"

namespace orrery::hostnccl {

Result<uint32_t> usable_networks(const Settings& settings, const sockaddr_in& local) {
  if (settings.network == NetworkChoice::kSocket) return kSocketNetwork;
  const auto port = choose_verbs_port(settings.verbs, local);
  if (settings.network == NetworkChoice::kVerbs) {
    if (!port) return Error{ErrorCode::kUnavailable, "NCCL_NET=IB, but: " + port.error().message};
    return kVerbsNetwork;
  }
  if (port) return kSocketNetwork | kVerbsNetwork;
  if (port.error().code == ErrorCode::kNotFound) {
    log_info(0, "NET/IB : " + port.error().message + "; using sockets");
  } else {
    log_warning(0, "NET/IB : " + port.error().message + "; falling back to sockets");
  }
  return kSocketNetwork;
}

Result<uint32_t> agree_on_network(const PeerTable& table) {
  uint32_t common = kSocketNetwork | kVerbsNetwork;
  uint32_t any = 0;
  size_t without_verbs = 0;
  size_t without_sockets = 0;
  for (size_t rank = 0; rank < table.peers.size(); ++rank) {
    const uint32_t networks = table.peers[rank].networks;
    common &= networks;
    any |= networks;
    if (!(networks & kVerbsNetwork)) without_verbs = rank;
    if (!(networks & kSocketNetwork)) without_sockets = rank;
  }
  if (common & kVerbsNetwork) return kVerbsNetwork;
  if (common & kSocketNetwork) {
    if (any & kVerbsNetwork) {
      log_info(0, "NET/IB : rank " + std::to_string(without_verbs) + " has no usable device: using sockets");
    }
    return kSocketNetwork;
  }
  return Error{ErrorCode::kRefused, "rank " + std::to_string(without_sockets) + " demands NCCL_NET=IB, rank " +
                                        std::to_string(without_verbs) + " has only sockets"};
}

uint32_t default_slice_bytes(uint32_t network) {
  return network == kVerbsNetwork ? 512 << 10 : 16 << 10;
}

Result<std::unique_ptr<Transport>> make_transport(uint32_t network, int rank, PeerTable table, UniqueFd listener,
                                                  const Settings& settings) {
  if (network == kVerbsNetwork) {
    ORRERY_ASSIGN(const VerbsPort port, choose_verbs_port(settings.verbs, table.peers[static_cast<size_t>(rank)].data));
    return std::unique_ptr<Transport>(
        std::make_unique<VerbsTransport>(rank, std::move(table), std::move(listener), port, settings));
  }
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(rank, std::move(table), std::move(listener), settings.peer_timeout));
}

std::string network_text(uint32_t network, const SharedSettings& shared) {
  if (network == kVerbsNetwork) return "NET/IB/0, " + std::to_string(shared.queue_pairs) + " queue pairs";
  return "NET/Socket/0, " + std::to_string(shared.sockets) + " connections";
}

}  // namespace orrery::hostnccl
