#include "controller/forecast/traffic_model.h"

#include <algorithm>

#include "common/abi/event_abi.h"

namespace orrery::forecast {
namespace {

// a * b / c, rounded up, no more than the type holds.
uint64_t scale(uint64_t a, uint64_t b, uint64_t c) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b + c - 1;
  return static_cast<uint64_t>(std::min<unsigned __int128>(product / c, UINT64_MAX));
}

// Every rank to the next, leaving out the edge that leaves `silent`; silent = nranks: none is left out.
std::vector<RankFlow> ring(uint32_t nranks, uint64_t bytes, uint32_t silent) {
  std::vector<RankFlow> flows;
  for (uint32_t rank = 0; rank < nranks; ++rank)
    if (rank != silent) flows.push_back({rank, (rank + 1) % nranks, bytes});
  return flows;
}

std::vector<RankFlow> all_to_all(uint32_t nranks, uint64_t bytes) {
  std::vector<RankFlow> flows;
  if (static_cast<uint64_t>(nranks) * (nranks - 1) > kMaxFlows) return flows;
  for (uint32_t src = 0; src < nranks; ++src)
    for (uint32_t step = 1; step < nranks; ++step) flows.push_back({src, (src + step) % nranks, bytes});
  return flows;
}

std::vector<RankFlow> star(uint32_t nranks, uint64_t bytes, uint32_t root, bool to_root) {
  std::vector<RankFlow> flows;
  for (uint32_t rank = 0; rank < nranks; ++rank) {
    if (rank == root) continue;
    flows.push_back(to_root ? RankFlow{rank, root, bytes} : RankFlow{root, rank, bytes});
  }
  return flows;
}

bool has_peer(uint16_t op) {
  switch (op) {
    case ORRERY_OP_BROADCAST:
    case ORRERY_OP_REDUCE:
    case ORRERY_OP_SEND:
    case ORRERY_OP_RECV:
    case ORRERY_OP_GATHER:
    case ORRERY_OP_SCATTER:
      return true;
    default:
      return false;
  }
}

std::vector<RankFlow> between(uint32_t src, uint32_t dst, uint32_t nranks, uint64_t bytes) {
  if (src == dst || src >= nranks || dst >= nranks) return {};
  return {{src, dst, bytes}};
}

}  // namespace

uint64_t flow_bytes(uint16_t op, uint64_t bytes, uint32_t nranks) {
  if (nranks < 2) return 0;
  switch (op) {
    case ORRERY_OP_ALL_REDUCE:
      return scale(bytes, uint64_t{2} * (nranks - 1), nranks);
    case ORRERY_OP_ALL_GATHER:
    case ORRERY_OP_REDUCE_SCATTER:
      return scale(bytes, nranks - 1, 1);
    default:
      return has_peer(op) || op == ORRERY_OP_ALL_TO_ALL ? bytes : 0;
  }
}

std::vector<RankFlow> flows_of(uint16_t op, uint64_t bytes, uint32_t nranks, uint32_t peer, uint32_t caller) {
  if (nranks < 2 || nranks > kMaxFlows || (has_peer(op) && peer >= nranks)) return {};
  switch (op) {
    case ORRERY_OP_ALL_REDUCE:
    case ORRERY_OP_ALL_GATHER:
    case ORRERY_OP_REDUCE_SCATTER:
      return ring(nranks, flow_bytes(op, bytes, nranks), nranks);
    case ORRERY_OP_BROADCAST:
      return ring(nranks, bytes, (peer + nranks - 1) % nranks);  // the rank before the root is the last to receive
    case ORRERY_OP_REDUCE:
      return ring(nranks, bytes, peer);
    case ORRERY_OP_SEND:
      return between(caller, peer, nranks, bytes);
    case ORRERY_OP_RECV:
      return between(peer, caller, nranks, bytes);
    case ORRERY_OP_ALL_TO_ALL:
      return all_to_all(nranks, bytes);
    case ORRERY_OP_GATHER:
      return star(nranks, bytes, peer, true);
    case ORRERY_OP_SCATTER:
      return star(nranks, bytes, peer, false);
    default:
      return {};
  }
}

}  // namespace orrery::forecast
