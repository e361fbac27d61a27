#include "tools/lab/hostnccl/verbs_queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace orrery::hostnccl {
namespace {

constexpr int kModifyTries = 35;  // NCCL's: resolving the peer's address may take its time
constexpr auto kModifyRetry = std::chrono::milliseconds(100);
constexpr uint8_t kHopLimit = 255;
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms

std::string number_text(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", number);
  return text;
}

const char* cure_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer or the path to it did not answer (check the peer's health, links, drops and the GID; on a slow "
             "network raise NCCL_IB_TIMEOUT)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted (a fault of the library)";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_ACCESS_ERR:
      return "memory was freed or unmapped while the operation ran";
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "both ends disagree about a message (do all ranks run the same version?)";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair had failed before (see the device's earlier messages)";
    default:
      return "see the kernel log and the device's hw_counters";
  }
}

const char* name_of_status(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local queue pair operation error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "invalid request at the peer";
    case IBV_WC_REM_ACCESS_ERR:
      return "access error at the peer";
    case IBV_WC_REM_OP_ERR:
      return "operation error at the peer";
    case IBV_WC_RETRY_EXC_ERR:
      return "retries exhausted";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retries exhausted";
    case IBV_WC_FATAL_ERR:
      return "fatal device error";
    default:
      return "completion error";
  }
}

}  // namespace

Result<CompletionQueue> CompletionQueue::create(const VerbsPort& port, int entries, VerbsFault* fault) {
  CompletionQueue queue;
  queue.handle_ = port.device->verbs->create_cq(port.device->context, entries, fault, nullptr, 0);
  if (!queue.handle_) return system_error(port.text() + ": cannot create a completion queue", errno);
  queue.verbs_ = port.device->verbs;
  return queue;
}

CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  std::swap(verbs_, other.verbs_);
  std::swap(handle_, other.handle_);
  return *this;
}

CompletionQueue::~CompletionQueue() {
  if (handle_) verbs_->destroy_cq(handle_);
}

Result<QueuePair> QueuePair::create(const VerbsPort& port, const CompletionQueue& completions, const Limits& limits,
                                    int access, const VerbsSettings& settings, VerbsFault* fault) {
  ibv_qp_init_attr wanted{};
  wanted.qp_context = fault;
  wanted.send_cq = completions.get();
  wanted.recv_cq = completions.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = limits.send_requests;
  wanted.cap.max_recv_wr = limits.receive_requests;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = limits.inline_bytes;
  QueuePair pair;
  pair.handle_ = port.device->verbs->create_qp(port.device->domain, &wanted);
  if (!pair.handle_) return system_error(port.text() + ": cannot create a queue pair", errno);
  pair.port_ = &port;
  pair.settings_ = &settings;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = settings.pkey_index;
  attributes.port_num = port.number;
  attributes.qp_access_flags = static_cast<unsigned>(access);
  ORRERY_TRY(pair.modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT"));
  return pair;
}

QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  std::swap(port_, other.port_);
  std::swap(settings_, other.settings_);
  std::swap(handle_, other.handle_);
  std::swap(peer_, other.peer_);
  return *this;
}

QueuePair::~QueuePair() {
  if (handle_) port_->device->verbs->destroy_qp(handle_);
}

Status QueuePair::connect(const VerbsPeer& peer, uint8_t traffic_class) {
  peer_ = peer;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min<int>(port_->attributes.active_mtu, peer.mtu));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = 0;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kMinRnrTimer;
  ibv_ah_attr& address = attributes.ah_attr;
  if (port_->is_ethernet()) {
    address.is_global = 1;
    std::memcpy(address.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    address.grh.flow_label = 0;
    address.grh.sgid_index = static_cast<uint8_t>(port_->gid_index);
    address.grh.hop_limit = kHopLimit;
    address.grh.traffic_class = traffic_class;
  } else {
    address.dlid = peer.lid;
  }
  address.sl = settings_->service_level;
  address.port_num = port_->number;
  ORRERY_TRY(modify(attributes,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                    "RTR"));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = settings_->timeout;
  attributes.retry_cnt = settings_->retries;
  attributes.rnr_retry = 7;
  attributes.sq_psn = 0;
  attributes.max_rd_atomic = 1;
  return modify(
      attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
      "RTS");
}

// Sleeps between tries: only the first operation with a peer waits for it.
Status QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* state) {
  int reason = 0;
  for (int tries = 1; tries <= kModifyTries; ++tries) {
    reason = port_->device->verbs->modify_qp(handle_, &attributes, mask);
    if (reason < 0) reason = errno;
    if (reason != ETIMEDOUT) break;
    std::this_thread::sleep_for(kModifyRetry * tries);
  }
  if (reason == 0) return {};
  const bool remote = mask & IBV_QP_AV;
  return system_error(
      port_->text() + " queue pair " + number_text(number()) + ": cannot go to " + state +
          (remote ? " towards " + to_text(peer_.gid) + " queue pair " + number_text(peer_.queue_pair) : ""),
      reason);
}

bool QueuePair::query_options(ibv_ece& options) const {
  const auto* verbs = port_->device->verbs;
  options = {};
  return verbs->query_ece && verbs->set_ece && verbs->query_ece(handle_, &options) == 0;
}

void QueuePair::set_options(ibv_ece options) {
  (void)port_->device->verbs->set_ece(handle_, &options);
}

Status QueuePair::post_send(ibv_send_wr* chain) {
  ibv_send_wr* refused = nullptr;
  const int reason = handle_->context->ops.post_send(handle_, chain, &refused);
  if (reason == 0) return {};
  return system_error(port_->text() + " queue pair " + number_text(number()) + ": post_send", reason);
}

Status QueuePair::post_receive(ibv_recv_wr* chain) {
  ibv_recv_wr* refused = nullptr;
  const int reason = handle_->context->ops.post_recv(handle_, chain, &refused);
  if (reason == 0) return {};
  return system_error(port_->text() + " queue pair " + number_text(number()) + ": post_recv", reason);
}

std::string describe_completion(ibv_wc_status status) {
  return std::string(name_of_status(status)) + " (status " + std::to_string(status) + "): " + cure_of(status);
}

}  // namespace orrery::hostnccl
