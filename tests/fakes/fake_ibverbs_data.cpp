// The data path of the fake libibverbs.
#include <cerrno>
#include <cstring>

#include "tests/fakes/fake_ibverbs_objects.h"

namespace orrery::fakes {
namespace {

void complete(Cq* cq, ibv_wc completion) {
  cq->done.push_back(completion);
}

ibv_wc_opcode completion_of(int opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

void scatter(const std::vector<ibv_sge>& into, const char* data, size_t bytes) {
  for (const ibv_sge& part : into) {
    const size_t take = bytes < part.length ? bytes : part.length;
    std::memcpy(reinterpret_cast<void*>(part.addr), data, take);
    data += take;
    bytes -= take;
  }
}

// False when the other side has posted no receive.
bool receive(Qp* peer, const SendRequest& request, bool with_data) {
  ReceiveQueue& queue = peer->qp.srq != nullptr ? reinterpret_cast<Srq*>(peer->qp.srq)->queue : peer->queue;
  if (queue.posted.empty()) return false;
  auto [wr_id, into] = queue.posted.front();
  queue.posted.pop_front();
  if (with_data) scatter(into, request.data.data(), request.data.size());
  ibv_wc completion{};
  completion.wr_id = wr_id;
  completion.status = IBV_WC_SUCCESS;
  completion.opcode = with_data ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  completion.byte_len = static_cast<uint32_t>(request.length);
  completion.imm_data = request.immediate;
  completion.qp_num = peer->qp.qp_num;
  complete(as_fake(peer->qp.recv_cq), completion);
  return true;
}

bool move_data(Qp* peer, const SendRequest& request) {
  auto* remote = reinterpret_cast<char*>(request.remote_address);
  switch (request.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      if (remote != nullptr && !request.data.empty()) std::memcpy(remote, request.data.data(), request.data.size());
      return request.opcode == IBV_WR_RDMA_WRITE || peer == nullptr || receive(peer, request, false);
    case IBV_WR_RDMA_READ:
      if (remote != nullptr) scatter(request.into, remote, request.length);
      return true;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      return peer == nullptr || receive(peer, request, true);
    default:
      return true;
  }
}

void flush(Qp* qp, const SendRequest& request) {
  ibv_wc completion{};
  completion.wr_id = request.wr_id;
  completion.status = IBV_WC_WR_FLUSH_ERR;
  completion.opcode = IBV_WC_RECV;
  completion.qp_num = qp->qp.qp_num;
  complete(as_fake(qp->qp.send_cq), completion);
}

void execute(Qp* qp, const SendRequest& request) {
  if (qp->qp.state == IBV_QPS_ERR) return flush(qp, request);
  const bool moved = move_data(qp_by_number(qp->dest_qpn), request);
  if (moved && !qp->sig_all && (request.flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc completion{};
  completion.wr_id = request.wr_id;
  completion.status = moved ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;
  // A failed completion's opcode means nothing; here it is one that would be counted wrongly.
  completion.opcode = moved ? completion_of(request.opcode) : IBV_WC_RECV;
  completion.qp_num = qp->qp.qp_num;
  complete(as_fake(qp->qp.send_cq), completion);
}

bool take_room(Qp* qp) {
  if (qp->room == 0) return false;
  if (qp->room > 0) --qp->room;
  return true;
}

SendRequest request_of(const ibv_send_wr& wr) {
  SendRequest request{};
  request.wr_id = wr.wr_id;
  request.opcode = wr.opcode;
  request.flags = wr.send_flags;
  request.immediate = wr.imm_data;
  request.remote_address = wr.wr.rdma.remote_addr;
  if (wr.opcode == IBV_WR_LOCAL_INV) return request;
  for (int i = 0; i < wr.num_sge; ++i) {
    request.length += wr.sg_list[i].length;
    request.into.push_back(wr.sg_list[i]);
    const auto* data = reinterpret_cast<const char*>(wr.sg_list[i].addr);
    if (wr.opcode != IBV_WR_RDMA_READ && data != nullptr)
      request.data.insert(request.data.end(), data, data + wr.sg_list[i].length);
  }
  return request;
}

int take(Qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  const std::lock_guard lock(mutex);
  for (; wr != nullptr; wr = wr->next) {
    if (orders.refused_wr_id != 0 && wr->wr_id == orders.refused_wr_id && wr->num_sge != 0) {
      *bad_wr = wr;
      return EINVAL;
    }
    if (!take_room(qp)) {
      *bad_wr = wr;
      return ENOMEM;
    }
    execute(qp, request_of(*wr));
  }
  return 0;
}

// Two providers with code of their own.
template <int kProvider>
int post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp* qp = as_fake(handle);
  if (qp->hollow) return 0;
  const int answer = take(qp, wr, bad_wr);
  if (orders.after_post != nullptr) orders.after_post();
  return answer;
}

// A request like any other, that passes by the table's post_send.
int bind_mw(ibv_qp* qp, ibv_mw*, ibv_mw_bind* bind) {
  ibv_send_wr wr{};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  ibv_send_wr* bad = nullptr;
  return take(as_fake(qp), &wr, &bad);
}

int post_receives(ReceiveQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const std::lock_guard lock(mutex);
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge > 16) {
      *bad_wr = wr;
      return EINVAL;
    }
    queue.posted.emplace_back(wr->wr_id, std::vector<ibv_sge>(wr->sg_list, wr->sg_list + wr->num_sge));
  }
  return 0;
}

template <int kProvider>
int post_recv(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp* qp = as_fake(handle);
  if (qp->hollow) return 0;
  const int answer = post_receives(qp->queue, wr, bad_wr);
  if (orders.after_post != nullptr) orders.after_post();
  return answer;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return post_receives(reinterpret_cast<Srq*>(srq)->queue, wr, bad_wr);
}

template <int kProvider>
int poll_cq(ibv_cq* handle, int room, ibv_wc* completions) {
  Cq* cq = as_fake(handle);
  if (cq->hollow) {
    completions[0] = {};
    completions[0].qp_num = cq->hollow_qpn;
    return 1;
  }
  const std::lock_guard lock(mutex);
  int count = 0;
  for (; count < room && !cq->done.empty(); ++count) {
    completions[count] = cq->done.front();
    cq->done.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq*, int) {
  return 0;
}

SendRequest& begin(ibv_qp_ex* handle, int opcode, uint64_t remote_address) {
  Qp* qp = as_fake(&handle->qp_base);
  SendRequest& request = qp->building.emplace_back();
  request.wr_id = handle->wr_id;
  request.flags = handle->wr_flags;
  request.opcode = opcode;
  request.remote_address = remote_address;
  return request;
}

SendRequest& last(ibv_qp_ex* handle) {
  return as_fake(&handle->qp_base)->building.back();
}

void append(SendRequest& request, const void* data, size_t bytes) {
  request.length += bytes;
  request.into.push_back({reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), 0});
  if (request.opcode == IBV_WR_RDMA_READ || data == nullptr) return;
  request.data.insert(request.data.end(), static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
}

int wr_complete(ibv_qp_ex* handle) {
  Qp* qp = as_fake(&handle->qp_base);
  const auto requests = std::move(qp->building);
  qp->building.clear();
  const bool fits = qp->room < 0 || static_cast<size_t>(qp->room) >= requests.size();
  for (const SendRequest& request : requests)
    if (fits) {
      take_room(qp);
      execute(qp, request);
    }
  mutex.unlock();
  return fits ? 0 : ENOMEM;
}

int next_poll(ibv_cq_ex* handle) {
  Cq* cq = reinterpret_cast<Cq*>(handle);
  if (cq->done.empty()) return ENOENT;
  cq->current = cq->done.front();
  cq->done.pop_front();
  handle->status = cq->current.status;
  handle->wr_id = cq->current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* handle, ibv_poll_cq_attr*) {
  mutex.lock();
  const int result = next_poll(handle);
  if (result != 0) mutex.unlock();
  return result;
}

}  // namespace

void fill_data_ops(ibv_context_ops* ops, bool second_provider) {
  ops->post_send = second_provider ? post_send<1> : post_send<0>;
  ops->post_recv = second_provider ? post_recv<1> : post_recv<0>;
  ops->poll_cq = second_provider ? poll_cq<1> : poll_cq<0>;
  ops->post_srq_recv = post_srq_recv;
  ops->bind_mw = bind_mw;
  ops->req_notify_cq = req_notify_cq;
}

void fill_extended_qp(Qp* fake) {
  ibv_qp_ex* qp = &fake->ex;
  qp->wr_start = [](ibv_qp_ex* q) {
    mutex.lock();
    as_fake(&q->qp_base)->building.clear();
  };
  qp->wr_complete = wr_complete;
  qp->wr_abort = [](ibv_qp_ex* q) {
    as_fake(&q->qp_base)->building.clear();
    mutex.unlock();
  };
  qp->wr_rdma_write = [](ibv_qp_ex* q, uint32_t, uint64_t remote) { begin(q, IBV_WR_RDMA_WRITE, remote); };
  qp->wr_rdma_write_imm = [](ibv_qp_ex* q, uint32_t, uint64_t remote, __be32 immediate) {
    begin(q, IBV_WR_RDMA_WRITE_WITH_IMM, remote).immediate = immediate;
  };
  qp->wr_rdma_read = [](ibv_qp_ex* q, uint32_t, uint64_t remote) { begin(q, IBV_WR_RDMA_READ, remote); };
  qp->wr_send = [](ibv_qp_ex* q) { begin(q, IBV_WR_SEND, 0); };
  qp->wr_send_imm = [](ibv_qp_ex* q, __be32 immediate) { begin(q, IBV_WR_SEND_WITH_IMM, 0).immediate = immediate; };
  qp->wr_send_inv = [](ibv_qp_ex* q, uint32_t) { begin(q, IBV_WR_SEND_WITH_INV, 0); };
  qp->wr_local_inv = [](ibv_qp_ex* q, uint32_t) { begin(q, IBV_WR_LOCAL_INV, 0); };
  qp->wr_atomic_cmp_swp = [](ibv_qp_ex* q, uint32_t, uint64_t remote, uint64_t, uint64_t) {
    begin(q, IBV_WR_ATOMIC_CMP_AND_SWP, remote);
  };
  qp->wr_atomic_fetch_add = [](ibv_qp_ex* q, uint32_t, uint64_t remote, uint64_t) {
    begin(q, IBV_WR_ATOMIC_FETCH_AND_ADD, remote);
  };
  qp->wr_set_sge = [](ibv_qp_ex* q, uint32_t, uint64_t address, uint32_t bytes) {
    append(last(q), reinterpret_cast<const void*>(address), bytes);
  };
  qp->wr_set_sge_list = [](ibv_qp_ex* q, size_t count, const ibv_sge* parts) {
    for (size_t i = 0; i < count; ++i) append(last(q), reinterpret_cast<const void*>(parts[i].addr), parts[i].length);
  };
  qp->wr_set_inline_data = [](ibv_qp_ex* q, void* data, size_t bytes) { append(last(q), data, bytes); };
  qp->wr_set_inline_data_list = [](ibv_qp_ex* q, size_t count, const ibv_data_buf* parts) {
    for (size_t i = 0; i < count; ++i) append(last(q), parts[i].addr, parts[i].length);
  };
}

void fill_extended_cq(Cq* fake) {
  ibv_cq_ex* cq = &fake->ex;
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = [](ibv_cq_ex*) { mutex.unlock(); };
  cq->read_opcode = [](ibv_cq_ex* c) { return reinterpret_cast<Cq*>(c)->current.opcode; };
  cq->read_byte_len = [](ibv_cq_ex* c) { return reinterpret_cast<Cq*>(c)->current.byte_len; };
  cq->read_qp_num = [](ibv_cq_ex* c) { return reinterpret_cast<Cq*>(c)->current.qp_num; };
}

}  // namespace orrery::fakes
