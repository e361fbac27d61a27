// A send queue as a provider keeps it: finite, in order, refusing what the test wants refused. For tests of deferral.
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/preload/deferral.h"

namespace orrery::preload {

// What the provider saw of a request when it took it, data of inline ones included.
struct TakenRequest {
  uint64_t wr_id = 0;
  unsigned opcode = 0;
  unsigned flags = 0;
  std::string body;  // scatter list, remote side and inline data, byte by byte

  bool operator==(const TakenRequest&) const = default;
};

inline TakenRequest seen_by_provider(const ibv_send_wr& wr) {
  TakenRequest request{wr.wr_id, static_cast<unsigned>(wr.opcode), wr.send_flags, {}};
  const auto add = [&](const void* data, size_t bytes) { request.body.append(static_cast<const char*>(data), bytes); };
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& part = wr.sg_list[i];
    add(&part.length, sizeof(part.length));
    add(&part.lkey, sizeof(part.lkey));
    if (wr.send_flags & IBV_SEND_INLINE)
      add(reinterpret_cast<const void*>(part.addr), part.length);
    else
      add(&part.addr, sizeof(part.addr));
  }
  add(&wr.imm_data, sizeof(wr.imm_data));
  add(&wr.wr, sizeof(wr.wr));
  return request;
}

struct Completion {
  uint64_t wr_id = 0;
  bool flushed = false;

  bool operator==(const Completion&) const = default;
};

class SendQueueModel {
 public:
  explicit SendQueueModel(uint32_t max_wr, uint32_t max_sge = 4, uint32_t max_inline = 256)
      : max_wr_(max_wr), max_sge_(max_sge), max_inline_(max_inline) {
    std::memset(&qp_, 0, sizeof(qp_));
    qp_.qp_context = this;
  }

  SendTarget target() {
    return {this, &qp_, post_send, look_at, posted, put_into_error, max_wr_, max_sge_, max_inline_};
  }
  ibv_qp* qp() { return &qp_; }

  static int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    return static_cast<SendQueueModel*>(qp->qp_context)->post(wr, bad_wr);
  }

  int post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    const std::lock_guard lock(mutex_);
    ++calls;
    for (; wr != nullptr; wr = wr->next) {
      const int answer = check(*wr);
      if (answer != 0) {
        *bad_wr = wr;
        return answer;
      }
      taken.push_back(seen_by_provider(*wr));
      outstanding_.push_back({wr->wr_id, (wr->send_flags & IBV_SEND_SIGNALED) != 0, in_error});
    }
    return 0;
  }

  // Completes up to `limit` requests; what the program would poll.
  std::vector<Completion> poll(size_t limit) {
    const std::lock_guard lock(mutex_);
    std::vector<Completion> completions;
    for (; limit > 0 && !outstanding_.empty(); --limit) {
      const Outstanding done = outstanding_.front();
      outstanding_.pop_front();
      if (done.signaled || done.flushed || in_error) completions.push_back({done.wr_id, done.flushed || in_error});
    }
    return completions;
  }

  size_t outstanding() const { return outstanding_.size(); }

  std::vector<TakenRequest> taken;
  std::set<uint64_t> refused_for_good;  // wr_ids answered with EINVAL outside the error state
  bool in_error = false;
  bool error_state_works = true;
  uint32_t calls = 0;
  uint64_t held = 0, early = 0, held_ns = 0, counted = 0, failed = 0;

 private:
  struct Outstanding {
    uint64_t wr_id;
    bool signaled;
    bool flushed;
  };

  int check(const ibv_send_wr& wr) const {
    if (outstanding_.size() >= max_wr_) return ENOMEM;
    if (static_cast<uint32_t>(wr.num_sge) > max_sge_) return EINVAL;
    uint64_t bytes = 0;
    for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
    if ((wr.send_flags & IBV_SEND_INLINE) && bytes > max_inline_) return EINVAL;
    if (wr.opcode != IBV_WR_SEND && refused_for_good.count(wr.wr_id) != 0) return EINVAL;
    return 0;
  }
  static void look_at(void* owner, const ibv_send_wr* wr) {
    auto* self = static_cast<SendQueueModel*>(owner);
    for (self->posting_ = 0; wr != nullptr; wr = wr->next) ++self->posting_;
  }
  static void posted(void* owner, const Posts& posts, uint64_t) {
    auto* self = static_cast<SendQueueModel*>(owner);
    if (posts.held == 0 && posts.refused == nullptr) {
      self->counted += self->posting_;
      return;
    }
    const ibv_send_wr* wr = posts.first;
    for (; wr != nullptr && wr != posts.refused; wr = wr->next) ++self->counted;
    for (; wr != nullptr; wr = wr->next) ++self->failed;
    self->held += posts.held;
    self->early += posts.early;
    self->held_ns += posts.held_ns;
  }
  static bool put_into_error(void* owner) {
    auto* self = static_cast<SendQueueModel*>(owner);
    self->in_error = self->error_state_works;
    return self->in_error;
  }

  uint32_t max_wr_, max_sge_, max_inline_;
  uint64_t posting_ = 0;
  ibv_qp qp_;
  std::mutex mutex_;
  std::deque<Outstanding> outstanding_;
};

}  // namespace orrery::preload
