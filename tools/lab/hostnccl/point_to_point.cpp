#include "tools/lab/hostnccl/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace orrery::hostnccl {
namespace {

class Message {
 public:
  Message(const Operation& operation, uint64_t sequence, const TaskContext& context, Stream& stream)
      : sends_(operation.kind == OperationKind::kSend),
        peer_(operation.peer),
        stream_(stream),
        own_header_(make_header(operation, sequence)) {
    auto* data = static_cast<uint8_t*>(sends_ ? const_cast<void*>(operation.send) : operation.recv);
    body_ = {.data = data, .bytes = own_header_.count};
    auto& header = sends_ ? own_header_ : peer_header_;
    hold_ = context.transport->hold(body_.data, body_.bytes, !sends_);
    header_ = {.data = reinterpret_cast<uint8_t*>(&header), .bytes = sizeof header};
    stream_.post(header_, body_);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  Result<bool> advance() {
    if (stream_.error()) return *stream_.error();
    if (!header_.done()) return false;
    if (!sends_ && !checked_) {
      if (auto text = mismatch(own_header_, peer_header_, stream_.peer_text()); !text.empty()) {
        return Error{ErrorCode::kRefused, text};
      }
      checked_ = true;
    }
    return body_.done();
  }
  bool waits_for(int rank) const { return rank == peer_ && !(header_.done() && body_.done()); }

 private:
  const bool sends_;
  const int peer_;
  Stream& stream_;
  OperationHeader own_header_;
  OperationHeader peer_header_;
  std::unique_ptr<MemoryHold> hold_;
  Transfer header_;
  Transfer body_;
  bool checked_ = false;
};

class PointToPointTask final : public Task {
 public:
  void add(const Operation& operation, uint64_t sequence, const TaskContext& context, Stream& stream) {
    messages_.emplace_back(operation, sequence, context, stream);
  }
  Result<bool> advance() override {
    bool all = true;
    for (auto& message : messages_) {
      ORRERY_ASSIGN(const bool done, message.advance());
      all = all && done;
    }
    return all;
  }
  bool waits_for(int rank) const override {
    return std::any_of(messages_.begin(), messages_.end(), [rank](const Message& m) { return m.waits_for(rank); });
  }

 private:
  std::deque<Message> messages_;
};

Status copy_to_self(const std::vector<Operation>& operations, int rank) {
  std::deque<const Operation*> sends;
  std::deque<const Operation*> receives;
  for (const auto& operation : operations) {
    if (operation.peer == rank) (operation.kind == OperationKind::kSend ? sends : receives).push_back(&operation);
  }
  if (sends.size() != receives.size()) {
    return Error{ErrorCode::kRefused, "a group sends " + std::to_string(sends.size()) +
                                          " messages to its own rank and receives " + std::to_string(receives.size()) +
                                          ": both must be in the same group"};
  }
  for (; !sends.empty(); sends.pop_front(), receives.pop_front()) {
    const size_t bytes = sends.front()->count * element_bytes(sends.front()->type);
    if (bytes != receives.front()->count * element_bytes(receives.front()->type)) {
      return Error{ErrorCode::kRefused, "a message to the own rank is sent and received with different sizes"};
    }
    if (bytes > 0) std::memmove(receives.front()->recv, sends.front()->send, bytes);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Task>> make_point_to_point_task(const std::vector<Operation>& operations,
                                                       const TaskContext& context, MessageCounters& counters) {
  ORRERY_TRY(copy_to_self(operations, context.rank));
  auto task = std::make_unique<PointToPointTask>();
  for (const auto& operation : operations) {
    if (operation.peer == context.rank) continue;
    const StreamKey key{operation.peer, StreamKind::kPointToPoint, 0};
    if (operation.kind == OperationKind::kSend) {
      task->add(operation, counters.sent[operation.peer]++, context, context.transport->sender(key));
    } else {
      task->add(operation, counters.received[operation.peer]++, context, context.transport->receiver(key));
    }
  }
  return std::unique_ptr<Task>(std::move(task));
}

void run_alone(const Operation& operation) {
  const bool reduces = operation.kind == OperationKind::kAllReduce || operation.kind == OperationKind::kReduce ||
                       operation.kind == OperationKind::kReduceScatter;
  if (reduces) {
    load_input(operation.reduction, operation.recv, operation.send, operation.count);
    finish(operation.reduction, operation.recv, operation.count);
  } else if (operation.count > 0 && operation.send != operation.recv) {
    std::memmove(operation.recv, operation.send, operation.count * element_bytes(operation.type));
  }
}

}  // namespace orrery::hostnccl
