// The receiving end of a verbs connection: posts receives, clears the sender to send, and sees the messages arrive.
#pragma once

#include <array>

#include "tools/lab/hostnccl/verbs_stream.h"

namespace orrery::hostnccl {

class VerbsReceiver final : public VerbsStream {
 public:
  using VerbsStream::VerbsStream;
  ~VerbsReceiver() override;

  // A sender's connection, with its first frame.
  void adopt(ControlChannel control, const ControlFrame& frame);
  bool needs_polling() const override { return established_ && !error_ && (first_ != next_ || !queue_.empty()); }

 private:
  struct Request {
    Batch batch;
    std::array<VerbsMemory::Region*, kMaxGroup> regions{};  // null: received into the block
    size_t messages = 0;                                    // completions of receives to come
    bool announcing = false;                                // the slot's write is signalled and not complete
    bool flushing = false;
    bool active = false;
  };

  void take_frame(const ControlFrame& frame) override;
  void take_completion(const ibv_wc& completion) override;
  void post_queued() override;
  size_t outstanding() const override { return static_cast<size_t>(next_ - first_); }
  void drop_requests() override;

  Status accept(const ControlFrame& frame);
  Status make_flush_pair();
  Status receive_next();
  Status announce(const Request& request);
  void advance(Request& request);
  void flush(Request& request);
  void finish(Request& request);
  uint8_t* staged(size_t slot, size_t place) const;
  CtsSlot* slots() const { return reinterpret_cast<CtsSlot*>(block_.data()); }

  uint64_t peer_slots_ = 0;
  uint32_t peer_slots_key_ = 0;
  QueuePair flush_pair_;
  bool flushes_ = false;
  uint64_t first_ = 0;  // the oldest request in flight, and the next one
  uint64_t next_ = 0;
  std::array<Request, kRequests> requests_;
};

}  // namespace orrery::hostnccl
