// Queue pairs of the fake libibverbs for the probe of the verbs layer.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/fakes/fake_ibverbs.h"

namespace orrery::probe {

inline constexpr int kFake = 0, kMlx5 = 1;  // devices, see fake_ibverbs.h
inline constexpr uint8_t kOwnGid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};

inline ibv_device* device(int index) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_device* wanted = list[index];
  ibv_free_device_list(list);
  return wanted;
}

inline ibv_gid peer_gid(uint8_t last_byte) {
  ibv_gid gid{};
  std::memcpy(gid.raw, kOwnGid, 16);
  gid.raw[15] = last_byte;
  return gid;
}

struct Device {
  explicit Device(ibv_context* opened) : context(opened), pd(ibv_alloc_pd(opened)) {}
  explicit Device(int index = kFake) : Device(ibv_open_device(device(index))) {}
  ibv_context* context;
  ibv_pd* pd;
};

struct QpWish {
  ibv_qp_type type = IBV_QPT_RC;
  bool sig_all = false;
  ibv_srq* srq = nullptr;
  ibv_cq* cq = nullptr;  // null: one of its own
};

inline ibv_qp* make_qp(const Device& device, const QpWish& wish = {}) {
  ibv_qp_init_attr creation{};
  creation.send_cq = creation.recv_cq =
      wish.cq != nullptr ? wish.cq : ibv_create_cq(device.context, 1024, nullptr, nullptr, 0);
  creation.srq = wish.srq;
  creation.qp_type = wish.type;
  creation.sq_sig_all = wish.sig_all;
  creation.cap = {256, 256, 4, 4, 64};
  return ibv_create_qp(device.pd, &creation);
}

inline ibv_qp_init_attr_ex extended_creation(const Device& device, ibv_cq* cq = nullptr) {
  ibv_qp_init_attr_ex creation{};
  creation.send_cq = creation.recv_cq = cq != nullptr ? cq : ibv_create_cq(device.context, 1024, nullptr, nullptr, 0);
  creation.qp_type = IBV_QPT_RC;
  creation.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  creation.pd = device.pd;
  creation.send_ops_flags =
      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
  return creation;
}

inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

inline int set_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  attributes.port_num = 1;
  return ibv_modify_qp(qp, &attributes, state == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_PORT : IBV_QP_STATE);
}

inline ibv_qp_attr rtr_attributes(uint32_t dest_qpn, const ibv_gid& peer, int gid_index = 1) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = dest_qpn;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = peer;
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
  attributes.ah_attr.grh.hop_limit = 255;
  return attributes;
}

// RESET -> RTS, to queue pair `dest_qpn` of 10.9.0.`peer`.
inline int connect(ibv_qp* qp, uint32_t dest_qpn, uint8_t peer = 2) {
  set_state(qp, IBV_QPS_INIT);
  ibv_qp_attr attributes = rtr_attributes(dest_qpn, peer_gid(peer));
  const int result = ibv_modify_qp(qp, &attributes, kRtrMask);
  return result != 0 ? result : set_state(qp, IBV_QPS_RTS);
}

struct Pair {
  explicit Pair(const Device& device, const QpWish& wish = {}) : a(make_qp(device, wish)), b(make_qp(device, wish)) {
    connect(a, b->qp_num);
    connect(b, a->qp_num);
  }
  ibv_qp* a;
  ibv_qp* b;
};

inline char memory[1 << 20];

struct Sge {
  explicit Sge(uint32_t bytes) : sge{reinterpret_cast<uint64_t>(memory), bytes, 0} {}
  ibv_sge sge;
};

inline ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge* sge, int count = 1, unsigned flags = IBV_SEND_SIGNALED) {
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.sg_list = sge;
  wr.num_sge = sge != nullptr ? count : 0;
  wr.send_flags = flags;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory + sizeof(memory) / 2);
  return wr;
}

inline int post(ibv_qp* qp, ibv_send_wr* wr) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, wr, &bad);
}
// One request of one buffer.
inline int post(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED) {
  Sge sge(bytes);
  ibv_send_wr wr = request(opcode, &sge.sge, 1, flags);
  return post(qp, &wr);
}

inline int post_receives(ibv_qp* qp, int count) {
  Sge sge(65536);
  int posted = 0;
  for (; posted < count; ++posted) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge.sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp, &wr, &bad) != 0) break;
  }
  return posted;
}

// Requests that are gone when the post returns, as when another thread has polled their completion and freed them.
template <typename Request>
struct FreedRequests {
  Request chain[2];
  ibv_sge sge;

  static inline FreedRequests* mapped = nullptr;
  static FreedRequests& make() {
    mapped = static_cast<FreedRequests*>(
        mmap(nullptr, sizeof(FreedRequests), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mapped->sge = Sge(100).sge;
    FakeVerbsOrders orders{};
    orders.after_post = [] { munmap(mapped, sizeof(FreedRequests)); };
    fake_ibverbs_order(&orders);
    return *mapped;
  }
  static void made() {
    const FakeVerbsOrders none{};
    fake_ibverbs_order(&none);
  }
};

// `count` writes of 100 bytes.
inline int post_freed(ibv_qp* qp, int count) {
  auto& freed = FreedRequests<ibv_send_wr>::make();
  freed.chain[0] = freed.chain[1] = request(IBV_WR_RDMA_WRITE, &freed.sge);
  if (count == 2) freed.chain[0].next = &freed.chain[1];
  const int result = post(qp, freed.chain);
  freed.made();
  return result;
}

inline int post_freed_receives(ibv_qp* qp) {
  auto& freed = FreedRequests<ibv_recv_wr>::make();
  ibv_recv_wr* bad = nullptr;
  freed.chain[0] = freed.chain[1] = ibv_recv_wr{1, &freed.chain[1], &freed.sge, 1};
  freed.chain[1].next = nullptr;
  const int result = ibv_post_recv(qp, freed.chain, &bad);
  freed.made();
  return result;
}

inline int poll_all(ibv_cq* cq) {
  ibv_wc completions[8];
  int all = 0;
  while (const int got = ibv_poll_cq(cq, 8, completions)) all += got;
  return all;
}

}  // namespace orrery::probe
