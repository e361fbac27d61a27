// Reliable-connected queue pairs with NCCL's attributes, and their completion queue. Proxy thread only.
#pragma once

#include <vector>

#include "tools/lab/hostnccl/verbs_device.h"

namespace orrery::hostnccl {

// The far end of a queue pair.
struct VerbsPeer {
  uint32_t queue_pair = 0;
  Gid gid{};
  uint16_t lid = 0;
  uint8_t mtu = 0;  // ibv_mtu
};

// Destroyed last, after the queue pairs that complete on it.
class CompletionQueue {
 public:
  static Result<CompletionQueue> create(const VerbsPort& port, int entries, VerbsFault* fault);
  CompletionQueue() = default;
  CompletionQueue(CompletionQueue&& other) noexcept { *this = std::move(other); }
  CompletionQueue& operator=(CompletionQueue&& other) noexcept;
  ~CompletionQueue();
  ibv_cq* get() const { return handle_; }
  // Up to `count` completions; negative: the device refuses.
  int poll(int count, ibv_wc* completions) { return handle_->context->ops.poll_cq(handle_, count, completions); }

 private:
  const VerbsLibrary* verbs_ = nullptr;
  ibv_cq* handle_ = nullptr;
};

class QueuePair {
 public:
  struct Limits {
    uint32_t send_requests = 0;
    uint32_t receive_requests = 0;
    uint32_t inline_bytes = 0;
  };
  // In state INIT. `access`: what the peer may do to registered memory.
  static Result<QueuePair> create(const VerbsPort& port, const CompletionQueue& completions, const Limits& limits,
                                  int access, const VerbsSettings& settings, VerbsFault* fault);
  QueuePair() = default;
  QueuePair(QueuePair&& other) noexcept { *this = std::move(other); }
  QueuePair& operator=(QueuePair&& other) noexcept;
  ~QueuePair();

  // INIT -> RTR -> RTS.
  Status connect(const VerbsPeer& peer, uint8_t traffic_class);

  // Options of the connection beyond the specification; nothing where the library or the device has none.
  bool query_options(ibv_ece& options) const;
  void set_options(ibv_ece options);

  uint32_t number() const { return handle_->qp_num; }
  const VerbsPeer& peer() const { return peer_; }
  // Chains; the arrays may be reused at once. Errors: kSystem.
  Status post_send(ibv_send_wr* chain);
  Status post_receive(ibv_recv_wr* chain);

 private:
  Status modify(ibv_qp_attr& attributes, int mask, const char* state);

  const VerbsPort* port_ = nullptr;
  const VerbsSettings* settings_ = nullptr;
  ibv_qp* handle_ = nullptr;
  VerbsPeer peer_;
};

// "name of the status: what to do about it".
std::string describe_completion(ibv_wc_status status);

}  // namespace orrery::hostnccl
