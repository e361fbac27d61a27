// The sending end of a verbs connection: waits for clear-to-send slots and writes the messages they ask for.
#pragma once

#include <array>

#include "tools/lab/hostnccl/verbs_stream.h"

namespace orrery::hostnccl {

class VerbsSender final : public VerbsStream {
 public:
  using VerbsStream::VerbsStream;
  ~VerbsSender() override;

  void connect();
  void collect(std::vector<pollfd>& fds, Deadline now, std::chrono::nanoseconds& wait) override;
  bool needs_polling() const override { return established_ && !error_ && (first_ != next_ || !queue_.empty()); }

 private:
  // A message that has been posted.
  struct Message {
    Piece piece;
    VerbsMemory::Region* region = nullptr;  // null: sent from the block
    size_t events = 0;                      // completions to come; 0: free
  };
  // What one work request chain needs to know of a message.
  struct Source {
    uint64_t address = 0;
    uint32_t key = 0;
    size_t bytes = 0;
  };

  void before_control() override;
  short control_events() const override;
  void take_frame(const ControlFrame& frame) override;
  void take_completion(const ibv_wc& completion) override;
  void post_queued() override;
  size_t outstanding() const override { return static_cast<size_t>(next_ - first_); }
  void drop_requests() override;

  void retry_connect(const std::string& reason);
  void start_exchange();
  bool send_next();
  size_t messages_asked_for() const;
  Result<Source> prepare(const Piece& piece, size_t index);
  Status post_on(QueuePair& pair, size_t share_index, size_t shares, size_t group, size_t count, uint64_t id);
  void finish(size_t index);
  CtsSlot* slots() const { return reinterpret_cast<CtsSlot*>(block_.data()) + slot_of(next_) * kMaxGroup; }
  // Messages of a request have neighbouring places in messages_.
  static size_t index_of(uint64_t request, size_t place) {
    return static_cast<size_t>(request % kMaxOutstanding) * kMaxGroup + place;
  }

  bool connecting_ = false;
  Deadline give_up_{};
  Deadline retry_at_{};
  uint64_t peer_sizes_ = 0;  // the receiver's sizes and their key
  uint32_t peer_sizes_key_ = 0;
  uint64_t first_ = 0;  // requests: the oldest in flight, and the next one
  uint64_t next_ = 0;
  std::array<Message, kMaxOutstanding * kMaxGroup> messages_;
  // Work requests, used again by every post.
  std::array<Source, kMaxGroup> sources_;
  std::array<ibv_send_wr, kMaxGroup + 1> requests_;
  std::array<ibv_sge, kMaxGroup + 1> elements_;
};

}  // namespace orrery::hostnccl
