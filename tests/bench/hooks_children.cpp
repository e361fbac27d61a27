#include "tests/bench/hooks_children.h"

#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/bench/hook_costs.h"
#include "tests/preload/nccl_calls.h"
#include "tests/preload/probe_network.h"

namespace orrery::bench {
namespace {

ncclComm_t make_comm() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, 4, id, 1);
  return comm;
}

void let_the_agent_drain() {
  usleep(4000);
}

}  // namespace

int measure_nccl() {
  const ncclComm_t comm = make_comm();
  if (comm == nullptr) return 1;
  tell("nccl", measure(
                   kNcclBatch, kNcclBatches, [&] { ncclAllReduce(nullptr, nullptr, 1000, 7, 0, comm, nullptr); },
                   let_the_agent_drain));
  return 0;
}

// Sending to oneself through TCP, one byte at a time; the receiver's work is kept out of the measurement.
int measure_send() {
  make_comm();  // attaches
  probe::enter_network();
  const probe::Pair pair = probe::connected_pair();
  char sink[4096];
  int failures = 0;
  constexpr int kBatch = 200, kBatches = 100;
  const Cost cost = measure(
      kBatch, kBatches, [&] { failures += send(pair.client, "x", 1, 0) != 1; },
      [&] {
        for (int left = kBatch; left > 0;) left -= static_cast<int>(recv(pair.server, sink, sizeof(sink), 0));
      });
  tell("send", cost);
  return failures == 0 ? 0 : 1;
}

int measure_memory() {
  const ncclComm_t comm = make_comm();
  ncclAllReduce(nullptr, nullptr, 1000, 7, 0, comm, nullptr);
  std::ifstream file("/proc/self/smaps_rollup");
  std::stringstream text;
  text << file.rdbuf();
  const size_t at = text.str().find("\nRss:");
  if (at == std::string::npos) return 1;
  std::printf("rss %lld 0\n", 1024 * std::atoll(text.str().c_str() + at + strlen("\nRss:")));
  return 0;
}

}  // namespace orrery::bench
