#include "tools/lab/hostnccl/verbs_receiver.h"

#include <cstring>

namespace orrery::hostnccl {
namespace {

// The block: slots as they are written to the sender, sizes of grouped messages (written by the sender), staged
// messages, the target of flushes.
constexpr size_t kSlotsBytes = sizeof(CtsSlot) * kRequests * kMaxGroup;
constexpr size_t kSizesBytes = sizeof(uint32_t) * kRequests * kMaxGroup;
constexpr size_t kStagingBytes = kStagedBytes * kRequests * kMaxGroup;
constexpr size_t kFlushOffset = kSlotsBytes + kSizesBytes + kStagingBytes;
constexpr size_t kBlockBytes = kFlushOffset + 64;

uint64_t address_of(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

VerbsReceiver::~VerbsReceiver() {
  pairs_.clear();
  drop_requests();
}

void VerbsReceiver::adopt(ControlChannel control, const ControlFrame& frame) {
  if (control_.is_open() || error_) return;  // a second connection for the same stream: dropped
  bound_silence(control.fd(), context_.peer_timeout);
  control_ = std::move(control);
  if (auto accepted = accept(frame); !accepted) return fail(accepted.error().message);
  if (!control_.flush()) fail("the control connection broke");
}

Status VerbsReceiver::accept(const ControlFrame& frame) {
  QueuePair::Limits limits{.send_requests = 2 * kRequests, .receive_requests = kRequests};
  if (context_.settings.inline_cts) limits.inline_bytes = sizeof(CtsSlot) * kMaxGroup;
  ORRERY_TRY(make_resources(limits, kBlockBytes));
  ORRERY_TRY(connect_queue_pairs(frame, context_.settings.cts_traffic_class));
  if (context_.settings.flush) ORRERY_TRY(make_flush_pair());
  peer_slots_ = frame.slots_address;
  peer_slots_key_ = frame.slots_key;
  ControlFrame reply = describe(ControlType::kInfo);
  reply.slots_address = address_of(block_.data() + kSlotsBytes);
  reply.slots_key = block_.remote_key();
  control_.send(reply);
  return {};
}

// To itself: with GPUDirect, a read behind the peer's writes makes them visible to the GPU.
Status VerbsReceiver::make_flush_pair() {
  const QueuePair::Limits limits{.send_requests = kRequests, .receive_requests = 1};
  ORRERY_ASSIGN(flush_pair_,
                QueuePair::create(context_.port, completions_, limits, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                                  context_.settings, &fault_));
  const auto& port = context_.port;
  ORRERY_TRY(flush_pair_.connect(
      {flush_pair_.number(), port.gid, port.attributes.lid, static_cast<uint8_t>(port.attributes.active_mtu)},
      context_.settings.traffic_class));
  flushes_ = true;
  return {};
}

void VerbsReceiver::take_frame(const ControlFrame& frame) {
  if (frame.type == ControlType::kReady) established_ = !pairs_.empty();
  if (frame.type == ControlType::kGoodbye) peer_left_ = true;
}

void VerbsReceiver::post_queued() {
  // A sender leaves when everything it sent has been acknowledged: what is still missing will not come.
  if (peer_left_) {
    for (uint64_t number = first_; number != next_; ++number) {
      Request& request = requests_[slot_of(number)];
      request.announcing = false;
      if (request.active) advance(request);
      if (request.messages > 0) return fail("it left while messages from it were awaited");
    }
    if (!queue_.empty()) return fail("it left while messages from it were awaited");
  }
  while (!error_ && !queue_.empty() && outstanding() < kMaxOutstanding) {
    if (auto posted = receive_next(); !posted) return fail(posted.error().message);
  }
}

uint8_t* VerbsReceiver::staged(size_t slot, size_t place) const {
  return block_.data() + kSlotsBytes + kSizesBytes + (slot * kMaxGroup + place) * kStagedBytes;
}

Status VerbsReceiver::receive_next() {
  const size_t slot = slot_of(next_);
  Request& request = requests_[slot] = {};
  request.batch = queue_.front();
  for (size_t i = 0; i < request.batch.count; ++i) {
    const Piece& piece = request.batch.pieces[i];
    CtsSlot& cts = slots()[slot * kMaxGroup + i] = {};
    cts.address = address_of(staged(slot, i));
    cts.key = block_.remote_key();
    if (piece.bytes > kStagedBytes) {
      ORRERY_ASSIGN(request.regions[i],
                    context_.memory->acquire(piece.data, piece.bytes, VerbsMemory::Use::kReadWrite));
      cts.address = address_of(piece.data);
      cts.key = request.regions[i]->handle->rkey;
    }
    cts.bytes = static_cast<uint32_t>(piece.bytes);
    cts.group = static_cast<uint32_t>(request.batch.count);
    cts.tag = static_cast<uint32_t>(i);
    cts.sequence = sequence_of(next_);
  }
  // The receives first: the sender may answer the slot at once.
  request.messages = splits() ? queue_pairs() : 1;
  for (size_t i = 0; i < request.messages; ++i) {
    ibv_recv_wr receive{};
    receive.wr_id = slot;
    QueuePair& pair = pairs_[splits() ? i : queue_pair_of(next_, queue_pairs())];
    ORRERY_TRY(pair.post_receive(&receive));
  }
  request.active = true;
  request.announcing = signals_cts(next_, 0);
  ORRERY_TRY(announce(request));
  queue_.pop_front();
  ++next_;
  return {};
}

Status VerbsReceiver::announce(const Request& request) {
  const size_t slot = slot_of(next_);
  ibv_sge element{address_of(slots() + slot * kMaxGroup), static_cast<uint32_t>(request.batch.count * sizeof(CtsSlot)),
                  block_.key()};
  ibv_send_wr write{};
  write.wr_id = slot;
  write.opcode = IBV_WR_RDMA_WRITE;
  write.sg_list = &element;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = peer_slots_ + slot * kMaxGroup * sizeof(CtsSlot);
  write.wr.rdma.rkey = peer_slots_key_;
  write.send_flags = context_.settings.inline_cts ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
  if (request.announcing) write.send_flags |= IBV_SEND_SIGNALED;
  return pairs_.front().post_send(&write);
}

void VerbsReceiver::take_completion(const ibv_wc& completion) {
  if (completion.wr_id >= kRequests || !requests_[completion.wr_id].active) return;
  Request& request = requests_[completion.wr_id];
  switch (completion.opcode) {
    case IBV_WC_RECV_RDMA_WITH_IMM:
      if (request.messages > 0) --request.messages;
      break;
    case IBV_WC_RDMA_WRITE:
      request.announcing = false;
      break;
    case IBV_WC_RDMA_READ:
      finish(request);
      break;
    default:
      return fail(context_.port.text() + ": unexpected completion " + std::to_string(completion.opcode));
  }
  advance(request);
}

void VerbsReceiver::advance(Request& request) {
  if (request.active && !request.flushing && request.messages == 0 && !request.announcing) {
    if (flushes_) {
      flush(request);
    } else {
      finish(request);
    }
  }
  while (first_ != next_ && !requests_[slot_of(first_)].active) ++first_;
}

void VerbsReceiver::flush(Request& request) {
  const auto slot = static_cast<size_t>(&request - requests_.data());
  const size_t last = request.batch.count - 1;
  const CtsSlot& cts = slots()[slot * kMaxGroup + last];
  ibv_sge element{address_of(block_.data() + kFlushOffset), 1, block_.key()};
  ibv_send_wr read{};
  read.wr_id = slot;
  read.opcode = IBV_WR_RDMA_READ;
  read.send_flags = IBV_SEND_SIGNALED;
  read.sg_list = &element;
  read.num_sge = 1;
  read.wr.rdma.remote_addr = cts.address;
  read.wr.rdma.rkey = cts.key;
  request.flushing = true;
  if (auto posted = flush_pair_.post_send(&read); !posted) fail(posted.error().message);
}

// The message's size in the immediate value or in the block is not compared: sizes differ only when ranks run different
// operations, which the operation's header tells better.
void VerbsReceiver::finish(Request& request) {
  const auto slot = static_cast<size_t>(&request - requests_.data());
  for (size_t i = 0; i < request.batch.count; ++i) {
    const Piece& piece = request.batch.pieces[i];
    if (request.regions[i]) {
      context_.memory->release(std::exchange(request.regions[i], nullptr));
    } else {
      std::memcpy(piece.data, staged(slot, i), piece.bytes);
    }
    complete(piece);
  }
  request.active = false;
}

void VerbsReceiver::drop_requests() {
  flush_pair_ = {};
  for (auto& request : requests_) {
    for (auto& region : request.regions) {
      if (region) context_.memory->release(std::exchange(region, nullptr));
    }
    request.active = false;
  }
  first_ = next_;
}

}  // namespace orrery::hostnccl
