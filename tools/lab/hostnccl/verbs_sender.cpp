#include "tools/lab/hostnccl/verbs_sender.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace orrery::hostnccl {
namespace {

constexpr auto kConnectRetry = std::chrono::milliseconds(50);

// The block: slots (written by the receiver), sizes of grouped messages, staged messages.
constexpr size_t kSlotsBytes = sizeof(CtsSlot) * kRequests * kMaxGroup;
constexpr size_t kSizesBytes = sizeof(uint32_t) * kRequests * kMaxGroup;
constexpr size_t kStagingBytes = kStagedBytes * kMaxOutstanding * kMaxGroup;
constexpr size_t kBlockBytes = kSlotsBytes + kSizesBytes + kStagingBytes;

uint32_t* sizes_of(uint8_t* block, uint64_t request) {
  return reinterpret_cast<uint32_t*>(block + kSlotsBytes) + slot_of(request) * kMaxGroup;
}

uint64_t address_of(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

VerbsSender::~VerbsSender() {
  pairs_.clear();
  drop_requests();
}

void VerbsSender::connect() {
  if (give_up_ == Deadline{}) give_up_ = Clock::now() + context_.peer_timeout;
  auto fd = start_connect(address_);
  if (!fd && fd.error().code == ErrorCode::kUnavailable) return retry_connect(fd.error().message);
  if (!fd) return fail(fd.error().message);
  bound_silence(fd->get(), context_.peer_timeout);
  control_ = ControlChannel(std::move(*fd));
  connecting_ = true;
}

void VerbsSender::retry_connect(const std::string& reason) {
  control_ = {};
  connecting_ = false;
  retry_at_ = Clock::now() + kConnectRetry;
  if (Clock::now() >= give_up_) fail(reason);
}

void VerbsSender::collect(std::vector<pollfd>& fds, Deadline now, std::chrono::nanoseconds& wait) {
  if (!error_ && !control_.is_open() && !established_ && !peer_left_) {
    if (retry_at_ <= now) connect();
    if (!control_.is_open()) wait = std::min<std::chrono::nanoseconds>(wait, kConnectRetry);
  }
  VerbsStream::collect(fds, now, wait);
}

short VerbsSender::control_events() const {
  return connecting_ ? short{POLLOUT} : VerbsStream::control_events();
}

void VerbsSender::before_control() {
  if (!connecting_) return;
  int reason = 0;
  socklen_t length = sizeof reason;
  ::getsockopt(control_.fd(), SOL_SOCKET, SO_ERROR, &reason, &length);
  if (reason == 0) {
    connecting_ = false;
    start_exchange();
  } else if (reason == ECONNREFUSED) {
    fail(system_error("connect", reason).message);
  } else {
    retry_connect(system_error("connect", reason).message);
  }
}

void VerbsSender::start_exchange() {
  const QueuePair::Limits limits{.send_requests = kMaxOutstanding * (kMaxGroup + 1), .receive_requests = kRequests};
  if (auto made = make_resources(limits, kBlockBytes); !made) return fail(made.error().message);
  ControlFrame frame = describe(ControlType::kInfo);
  frame.slots_address = address_of(block_.data());
  frame.slots_key = block_.remote_key();
  control_.send(frame);
}

void VerbsSender::take_frame(const ControlFrame& frame) {
  if (frame.type == ControlType::kInfo && !established_) {
    if (auto made = connect_queue_pairs(frame, context_.settings.traffic_class); !made) {
      return fail(made.error().message);
    }
    peer_sizes_ = frame.slots_address;
    peer_sizes_key_ = frame.slots_key;
    control_.send(describe(ControlType::kReady));
    established_ = true;
  } else if (frame.type == ControlType::kGoodbye) {
    // Whoever leaves in good order has received everything it asked for; only the acknowledgements may be missing.
    peer_left_ = true;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].events > 0) finish(i);
    }
    first_ = next_;
  }
}

void VerbsSender::post_queued() {
  if (peer_left_ && !queue_.empty()) return fail("it left while messages to it were waiting");
  while (!error_ && !queue_.empty() && outstanding() < kMaxOutstanding && send_next()) {
  }
}

// 0 while the next slot is not written completely.
size_t VerbsSender::messages_asked_for() const {
  const CtsSlot* slot = slots();
  const uint64_t sequence = sequence_of(next_);
  if (__atomic_load_n(&slot[0].sequence, __ATOMIC_ACQUIRE) != sequence) return 0;
  const size_t group = std::clamp<size_t>(slot[0].group, 1, kMaxGroup);
  for (size_t i = 1; i < group; ++i) {
    if (__atomic_load_n(&slot[i].sequence, __ATOMIC_ACQUIRE) != sequence) return 0;
  }
  return group;
}

// Ranks that run different operations may disagree about the messages. What fits is sent: the operation's header is
// always in it, and the receiver finds the difference there.
bool VerbsSender::send_next() {
  const size_t group = messages_asked_for();
  if (group == 0) return false;
  Batch& batch = queue_.front();
  const size_t count = std::min(group, batch.count);
  std::array<uint8_t, kMaxGroup> indices{};
  for (size_t i = 0; i < count; ++i) {
    const size_t index = index_of(next_, i);
    indices[i] = static_cast<uint8_t>(index);
    auto source = prepare(batch.pieces[i], index);
    if (!source) {
      fail(source.error().message);
      return false;
    }
    source->bytes = std::min<size_t>(source->bytes, slots()[i].bytes);
    sources_[i] = *source;
  }
  const uint64_t id = pack_requests(indices, count);
  const size_t shares = splits() ? queue_pairs() : 1;
  for (size_t i = 0; i < count; ++i) messages_[index_of(next_, i)].events = shares;
  for (size_t share = 0; share < shares; ++share) {
    QueuePair& pair = pairs_[splits() ? share : queue_pair_of(next_, queue_pairs())];
    if (auto posted = post_on(pair, share, shares, group, count, id); !posted) {
      fail(posted.error().message);
      return false;
    }
  }
  if (count < batch.count) {
    batch = {{batch.pieces[1]}, 1};
  } else {
    queue_.pop_front();
  }
  ++next_;
  return true;
}

Result<VerbsSender::Source> VerbsSender::prepare(const Piece& piece, size_t index) {
  Message& message = messages_[index];
  message.piece = piece;
  message.region = nullptr;
  if (piece.bytes <= kStagedBytes) {
    uint8_t* staged = block_.data() + kSlotsBytes + kSizesBytes + index * kStagedBytes;
    std::memcpy(staged, piece.data, piece.bytes);
    return Source{address_of(staged), block_.key(), piece.bytes};
  }
  ORRERY_ASSIGN(message.region, context_.memory->acquire(piece.data, piece.bytes, VerbsMemory::Use::kRead));
  return Source{address_of(piece.data), message.region->handle->lkey, piece.bytes};
}

// One chain: a write per message, and the immediate value on the last one, or on a write of its own when messages are
// grouped (it carries their sizes) or routed adaptively (the network may reorder the payload's packets).
Status VerbsSender::post_on(QueuePair& pair, size_t share_index, size_t shares, size_t group, size_t count,
                            uint64_t id) {
  const auto& settings = context_.settings;
  size_t used = 0;
  for (; used < count; ++used) {
    const Share share = share_of(sources_[used].bytes, shares, share_index);
    elements_[used] = {sources_[used].address + share.offset, static_cast<uint32_t>(share.bytes), sources_[used].key};
    ibv_send_wr& write = requests_[used] = {};
    write.opcode = IBV_WR_RDMA_WRITE;
    write.sg_list = share.bytes > 0 ? &elements_[used] : nullptr;
    write.num_sge = share.bytes > 0 ? 1 : 0;
    write.wr.rdma.remote_addr = slots()[used].address + share.offset;
    write.wr.rdma.rkey = slots()[used].key;
    write.next = &requests_[used + 1];
  }
  if (group > 1 || (settings.adaptive_routing && sources_[0].bytes > settings.adaptive_threshold)) {
    ibv_send_wr& marker = requests_[used] = {};
    if (group > 1) {
      uint32_t* sizes = sizes_of(block_.data(), next_);
      for (size_t i = 0; i < group; ++i) sizes[i] = i < count ? static_cast<uint32_t>(sources_[i].bytes) : 0;
      elements_[used] = {address_of(sizes), static_cast<uint32_t>(group * sizeof(uint32_t)), block_.key()};
      marker.sg_list = &elements_[used];
      marker.num_sge = 1;
      marker.wr.rdma.remote_addr = peer_sizes_ + slot_of(next_) * kMaxGroup * sizeof(uint32_t);
      marker.wr.rdma.rkey = peer_sizes_key_;
    }
    ++used;
  }
  ibv_send_wr& last = requests_[used - 1];
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = group == 1 ? static_cast<uint32_t>(sources_[0].bytes) : 0;
  last.send_flags = IBV_SEND_SIGNALED;
  last.wr_id = id;
  last.next = nullptr;
  return pair.post_send(requests_.data());
}

void VerbsSender::take_completion(const ibv_wc& completion) {
  for (size_t place = 0; place < kMaxGroup; ++place) {
    const size_t index = unpack_request(completion.wr_id, place);
    if (place > 0 && index == 0) break;  // no second message: index 0 is only ever a first one
    if (index >= messages_.size() || messages_[index].events == 0) break;
    if (--messages_[index].events == 0) finish(index);
  }
  while (first_ != next_ && messages_[index_of(first_, 0)].events == 0) ++first_;
}

void VerbsSender::finish(size_t index) {
  Message& message = messages_[index];
  message.events = 0;
  if (message.region) context_.memory->release(std::exchange(message.region, nullptr));
  complete(message.piece);
}

void VerbsSender::drop_requests() {
  for (auto& message : messages_) {
    if (message.region) context_.memory->release(std::exchange(message.region, nullptr));
    message.events = 0;
  }
  first_ = next_;
}

}  // namespace orrery::hostnccl
