// How the ranks of a communicator find each other: the root (whoever made the unique id) gathers every rank's listening
// address over TCP and answers each with the whole table. Nothing of it outlives the exchange.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "tools/lab/hostnccl/include/nccl.h"
#include "tools/lab/hostnccl/settings.h"

namespace orrery::hostnccl {

// One rank's entry. `data` is where its transport listens, `monitor` (rank 0's only is used) where its peer monitor
// does.
struct PeerAddress {
  sockaddr_in data{};
  sockaddr_in monitor{};
  uint32_t networks = 0;  // those it can use: see network.h
  uint32_t reserved = 0;
};
static_assert(sizeof(PeerAddress) == 40);

struct PeerTable {
  uint64_t communicator_id = 0;
  SharedSettings shared;  // rank 0's
  std::vector<PeerAddress> peers;
};

// Makes an id and starts the thread that serves it once; with NCCL_COMM_ID=host:port the id names that address and rank
// 0 serves it.
Result<ncclUniqueId> make_unique_id(const Settings& settings);

// Blocks until all ranks have joined. Errors name the ranks that have not, or what does not fit together.
Result<PeerTable> exchange_addresses(const ncclUniqueId& id, int rank, int nranks, const PeerAddress& own,
                                     const Settings& settings);

// 64-bit hash of the whole id: the same on every rank.
uint64_t hash_id(const ncclUniqueId& id);

}  // namespace orrery::hostnccl
