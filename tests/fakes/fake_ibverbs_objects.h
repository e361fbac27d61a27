// What the objects of the fake libibverbs are.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "tests/fakes/fake_ibverbs.h"

namespace orrery::fakes {

struct SendRequest {
  uint64_t wr_id;
  int opcode;
  unsigned flags;
  uint64_t remote_address;
  uint32_t immediate;
  std::vector<char> data;
  std::vector<ibv_sge> into;  // of reads
  uint64_t length;
};

struct Cq {
  union {
    ibv_cq cq;
    ibv_cq_ex ex;
  };
  std::deque<ibv_wc> done;
  ibv_wc current;
  bool hollow;
  uint32_t hollow_qpn;
};

struct ReceiveQueue {
  std::deque<std::pair<uint64_t, std::vector<ibv_sge>>> posted;
};

struct Srq {
  ibv_srq srq;
  ReceiveQueue queue;
};

struct Qp {
  union {
    ibv_qp qp;
    ibv_qp_ex ex;
  };
  bool extended;
  bool sig_all;
  bool hollow;
  int room;  // -1: any
  uint32_t dest_qpn;
  ReceiveQueue queue;
  std::vector<SendRequest> building;
};

// One lock for everything.
extern std::recursive_mutex mutex;
extern FakeVerbsOrders orders;
extern FakeVerbsSeen seen;

Qp* qp_by_number(uint32_t qpn);
inline Qp* as_fake(ibv_qp* qp) {
  return reinterpret_cast<Qp*>(qp);
}
inline Cq* as_fake(ibv_cq* cq) {
  return reinterpret_cast<Cq*>(cq);
}

void fill_data_ops(ibv_context_ops* ops, bool second_provider);
void fill_extended_qp(Qp* qp);
void fill_extended_cq(Cq* cq);

}  // namespace orrery::fakes
