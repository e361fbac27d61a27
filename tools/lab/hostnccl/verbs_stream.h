// One direction of traffic with a peer over queue pairs of its own: what sender and receiver share. Proxy thread only.
//
// As NCCL's connections: the receiver announces each message by writing a clear-to-send slot into the sender's memory;
// the sender writes the message to the place named there, its last write with an immediate value that completes a
// receive without buffer. Nothing is copied but messages of at most kStagedBytes, which are not worth a registration.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/lab/hostnccl/transport.h"
#include "tools/lab/hostnccl/verbs_control.h"
#include "tools/lab/hostnccl/verbs_memory.h"
#include "tools/lab/hostnccl/verbs_queue_pair.h"

namespace orrery::hostnccl {

inline constexpr size_t kStagedBytes = 1024;

// What the streams of a communicator share; owned by the transport, which outlives them.
struct VerbsContext {
  int rank = 0;
  uint64_t communicator_id = 0;
  SharedSettings shared;
  VerbsSettings settings;
  std::chrono::seconds peer_timeout{};
  VerbsPort port;
  VerbsMemory* memory = nullptr;
};

class VerbsStream : public Stream {
 public:
  VerbsStream(const VerbsContext& context, const StreamKey& key, const sockaddr_in& address);
  ~VerbsStream() override;

  void post(Transfer& transfer) final;
  void post(Transfer& first, Transfer& second) final;
  const std::optional<Error>& error() const final { return error_; }
  std::string peer_text() const final;

  // Appends the control connection, if there is one; lowers `wait` to the next thing due without an event.
  virtual void collect(std::vector<pollfd>& fds, Deadline now, std::chrono::nanoseconds& wait);
  void handle(const std::vector<pollfd>& fds);
  // Polls completions and posts what can be posted. Returns the bytes that have arrived.
  size_t progress();
  // True while only polling can tell that something has happened.
  virtual bool needs_polling() const = 0;
  // Tells the peer that this end leaves in good order.
  void leave();
  // Destroys the queue pairs: the peer reaches no memory here any more.
  void halt();

 protected:
  // Part of a transfer that travels as one message.
  struct Piece {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    Transfer* owner = nullptr;
  };
  // Pieces that share a request.
  struct Batch {
    std::array<Piece, kMaxGroup> pieces;
    size_t count = 0;
  };

  virtual void before_control() {}  // it has an event
  virtual short control_events() const;
  virtual void take_frame(const ControlFrame& frame) = 0;
  virtual void take_completion(const ibv_wc& completion) = 0;
  virtual void post_queued() = 0;
  virtual size_t outstanding() const = 0;
  virtual void drop_requests() = 0;

  // Creates the completion queue, the queue pairs and `block_bytes` of own memory.
  Status make_resources(QueuePair::Limits limits, size_t block_bytes);
  ControlFrame describe(ControlType type) const;
  Status connect_queue_pairs(const ControlFrame& peer, uint8_t traffic_class);
  size_t queue_pairs() const { return context_.shared.queue_pairs; }
  bool splits() const { return context_.shared.split_data != 0; }
  void complete(const Piece& piece);
  void fail(const std::string& what);
  void fail_completion(const ibv_wc& completion);

  const VerbsContext& context_;
  const StreamKey key_;
  const sockaddr_in address_;
  ControlChannel control_;
  VerbsFault fault_{-1};
  CompletionQueue completions_;
  VerbsBlock block_;
  std::vector<QueuePair> pairs_;
  std::deque<Batch> queue_;
  bool established_ = false;
  bool peer_left_ = false;
  std::optional<Error> error_;

 private:
  void enqueue(const Piece& piece) { queue_.push_back({{piece}, 1}); }
  void enqueue_from(Transfer& transfer, size_t offset);
  void read_control();
  void poll_completions();

  int poll_index_ = -1;
  size_t moved_ = 0;
};

}  // namespace orrery::hostnccl
