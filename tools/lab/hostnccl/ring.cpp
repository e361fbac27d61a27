#include "tools/lab/hostnccl/ring.h"

#include <cstring>
#include <optional>

namespace orrery::hostnccl {
namespace {

constexpr size_t kReceiveWindow = 8;  // receives posted ahead; less than kMaxSlices
constexpr size_t kMaxSending = 2 * kMaxSlices;
constexpr size_t kSlots = 2 * kMaxSlices;
static_assert(kReceiveWindow < kMaxSlices);

// One channel: slices wait in receiving_ until they are complete, then in sending_ until they are sent.
class RingChannel {
 public:
  RingChannel(const Operation& operation, const OperationHeader& header, RingPlan plan, Stream* in, Stream* out,
              SlotPool& slots)
      : reduction_(operation.reduction),
        plan_(std::move(plan)),
        in_(in),
        out_(out),
        slots_(slots),
        own_header_(header) {
    header_out_ = {.data = reinterpret_cast<uint8_t*>(&own_header_), .bytes = sizeof own_header_};
    header_in_ = {.data = reinterpret_cast<uint8_t*>(&peer_header_), .bytes = sizeof peer_header_};
    if (out_) out_->post(header_out_);
    if (in_) in_->post(header_in_);
  }
  RingChannel(const RingChannel&) = delete;
  RingChannel& operator=(const RingChannel&) = delete;

  ~RingChannel() {
    for (auto* queue : {&receiving_, &sending_}) {
      for (auto& slice : *queue) release(slice);
    }
  }

  Result<bool> advance() {
    if (in_ && in_->error()) return *in_->error();
    if (out_ && out_->error()) return *out_->error();
    if (in_ && !checked_header_) {
      if (header_in_.done()) {
        if (auto text = mismatch(own_header_, peer_header_, in_->peer_text()); !text.empty()) {
          return Error{ErrorCode::kRefused, text};
        }
        checked_header_ = true;
      }
    }
    bool progress = true;
    while (progress) {
      progress = false;
      while (!sending_.empty() && sending_.front().outgoing.done()) {
        release(sending_.front());
        sending_.pop_front();
        progress = true;
      }
      while (receiving_.size() < kReceiveWindow && take_next()) progress = true;
      while (process_front()) progress = true;
    }
    return next_ == plan_.size() && receiving_.empty() && sending_.empty() && header_out_.done() &&
           (!in_ || checked_header_);
  }

 private:
  struct Slice {
    SliceStep step;
    uint8_t* slot = nullptr;
    Transfer incoming;
    Transfer outgoing;
  };

  void release(Slice& slice) {
    if (slice.slot) slots_.give_back(slice.slot);
    slice.slot = nullptr;
  }

  // Posts the next step's receive. False when there is none or no slot for it.
  bool take_next() {
    if (next_ == plan_.size()) return false;
    const SliceStep step = plan_.at(next_);
    uint8_t* slot = nullptr;
    const bool needs_slot = step.reduces && (step.receives || (reduction_.scales_input && !step.out));
    if (needs_slot && !(slot = slots_.take())) return false;
    Slice& slice = receiving_.emplace_back(Slice{.step = step, .slot = slot});
    if (step.receives) {
      slice.incoming = {.data = slot ? slot : step.out, .bytes = step.bytes};
      in_->post(slice.incoming);
    }
    ++next_;
    return true;
  }

  // Handles the oldest slice once it is complete. False when it is not, or too much waits to be sent.
  bool process_front() {
    if (receiving_.empty() || !receiving_.front().incoming.done()) return false;
    if (in_ && !checked_header_ && receiving_.front().step.receives) return false;
    if (receiving_.front().step.sends && sending_.size() >= kMaxSending) return false;
    const uint8_t* value = compute(receiving_.front());
    Slice slice = receiving_.front();
    receiving_.pop_front();
    if (!slice.step.sends) {
      release(slice);
      return true;
    }
    if (value != slice.slot) release(slice);
    Slice& waiting = sending_.emplace_back(slice);
    waiting.outgoing = {.data = const_cast<uint8_t*>(value), .bytes = slice.step.bytes};
    out_->post(waiting.outgoing);
    return true;
  }

  // Returns where the slice's value is now.
  const uint8_t* compute(Slice& slice) {
    const SliceStep& step = slice.step;
    if (step.reduces && step.receives) {
      uint8_t* target = step.out ? step.out : slice.slot;
      const size_t count = step.bytes / element_bytes(reduction_.type);
      combine(reduction_, target, slice.slot, step.local, count);
      if (step.finishes) finish(reduction_, target, count);
      return target;
    }
    if (step.receives) return step.out;
    uint8_t* target = step.out ? step.out : slice.slot;
    if (!target) return step.local;
    if (step.reduces) {
      load_input(reduction_, target, step.local, step.bytes / element_bytes(reduction_.type));
    } else if (target != step.local && step.bytes > 0) {
      std::memmove(target, step.local, step.bytes);
    }
    return target;
  }

  const Reduction reduction_;
  const RingPlan plan_;
  Stream* const in_;
  Stream* const out_;
  SlotPool& slots_;
  OperationHeader own_header_;
  OperationHeader peer_header_;
  Transfer header_out_;
  Transfer header_in_;
  bool checked_header_ = false;
  size_t next_ = 0;
  std::deque<Slice> receiving_;
  std::deque<Slice> sending_;
};

class RingTask final : public Task {
 public:
  RingTask(const Operation& operation, uint64_t sequence, const TaskContext& context, std::vector<SlotPool>& slots) {
    const int next = (context.rank + 1) % context.nranks;
    const int previous = (context.rank + context.nranks - 1) % context.nranks;
    const OperationHeader header = make_header(operation, sequence);
    // The one that may be written first: in place it serves for both.
    const size_t written = bytes_written(operation, context.rank, context.nranks);
    const size_t read = bytes_read(operation, context.rank, context.nranks);
    if (written > 0) holds_[0] = context.transport->hold(operation.recv, written, true);
    if (read > 0) holds_[1] = context.transport->hold(operation.send, read, false);
    for (uint32_t channel = 0; channel < context.shared.channels; ++channel) {
      RingPlan plan(operation, context.rank, context.nranks, context.shared, channel);
      const int index = static_cast<int>(channel);
      Stream* in = plan.receives() ? &context.transport->receiver({previous, StreamKind::kRing, index}) : nullptr;
      Stream* out = plan.sends() ? &context.transport->sender({next, StreamKind::kRing, index}) : nullptr;
      channels_.emplace_back(operation, header, std::move(plan), in, out, slots[channel]);
    }
  }

  Result<bool> advance() override {
    bool all = true;
    for (auto& channel : channels_) {
      ORRERY_ASSIGN(const bool done, channel.advance());
      all = all && done;
    }
    return all;
  }
  bool waits_for(int) const override { return true; }  // a ring needs every rank

 private:
  std::unique_ptr<MemoryHold> holds_[2];
  std::deque<RingChannel> channels_;
};

}  // namespace

SlotPool::SlotPool(size_t slot_bytes, Transport& transport)
    : slot_bytes_(slot_bytes), transport_(transport), memory_(new uint8_t[slot_bytes * kSlots]), holds_(kSlots) {
  for (size_t i = 0; i < kSlots; ++i) free_.push_back(memory_.get() + i * slot_bytes);
}

uint8_t* SlotPool::take() {
  if (free_.empty()) return nullptr;
  uint8_t* slot = free_.back();
  free_.pop_back();
  auto& hold = holds_[static_cast<size_t>(slot - memory_.get()) / slot_bytes_];
  if (!hold) hold = transport_.hold(slot, slot_bytes_, true);
  return slot;
}

std::unique_ptr<Task> make_ring_task(const Operation& operation, uint64_t sequence, const TaskContext& context,
                                     std::vector<SlotPool>& slots) {
  return std::make_unique<RingTask>(operation, sequence, context, slots);
}

}  // namespace orrery::hostnccl
