#include "tools/lab/hostnccl/verbs_stream.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace orrery::hostnccl {
namespace {

constexpr int kPollAtOnce = 4;

std::string hex(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", number);
  return text;
}

}  // namespace

VerbsStream::VerbsStream(const VerbsContext& context, const StreamKey& key, const sockaddr_in& address)
    : context_(context), key_(key), address_(address) {}

VerbsStream::~VerbsStream() = default;

std::string VerbsStream::peer_text() const {
  return "rank " + std::to_string(key_.peer) + " (" + hostnccl::to_text(address_) + ")";
}

void VerbsStream::enqueue_from(Transfer& transfer, size_t offset) {
  for (; offset < transfer.bytes; offset += kMaxMessageBytes) {
    enqueue({transfer.data + offset, std::min(kMaxMessageBytes, transfer.bytes - offset), &transfer});
  }
}

void VerbsStream::post(Transfer& transfer) {
  transfer.left = transfer.bytes;
  enqueue_from(transfer, 0);
}

void VerbsStream::post(Transfer& first, Transfer& second) {
  if (first.bytes == 0 || second.bytes == 0 || first.bytes > kMaxMessageBytes) {
    post(first);
    post(second);
    return;
  }
  first.left = first.bytes;
  second.left = second.bytes;
  const size_t joined = std::min(kMaxMessageBytes, second.bytes);
  queue_.push_back({{Piece{first.data, first.bytes, &first}, Piece{second.data, joined, &second}}, 2});
  enqueue_from(second, joined);
}

void VerbsStream::collect(std::vector<pollfd>& fds, Deadline, std::chrono::nanoseconds&) {
  poll_index_ = -1;
  if (error_ || !control_.is_open()) return;
  poll_index_ = static_cast<int>(fds.size());
  fds.push_back({control_.fd(), control_events(), 0});
}

short VerbsStream::control_events() const {
  return static_cast<short>(POLLIN | (control_.wants_to_write() ? POLLOUT : 0));
}

void VerbsStream::handle(const std::vector<pollfd>& fds) {
  if (error_ || poll_index_ < 0) return;
  const short events = fds[static_cast<size_t>(poll_index_)].revents;
  if (events == 0) return;
  before_control();
  if (error_ || !control_.is_open()) return;
  if (!control_.flush()) return fail("the control connection broke");
  if (events & ~POLLOUT) read_control();
}

void VerbsStream::read_control() {
  while (!error_ && control_.is_open()) {
    auto frame = control_.receive();
    if (!frame) {
      control_ = {};
      if (!peer_left_) fail(frame.error().message);
      return;
    }
    if (!*frame) return;
    take_frame(**frame);
    if (!control_.flush()) fail("the control connection broke");
  }
}

size_t VerbsStream::progress() {
  if (error_ || !established_) return 0;
  moved_ = 0;
  poll_completions();
  if (error_) return moved_;
  for (const int event : {fault_.load(), context_.port.device->fault.load()}) {
    if (event < 0) continue;
    fail(context_.port.text() +
         " reports: " + context_.port.device->verbs->event_type_str(static_cast<ibv_event_type>(event)));
    return moved_;
  }
  post_queued();
  return moved_;
}

void VerbsStream::poll_completions() {
  ibv_wc completions[kPollAtOnce];
  while (!error_ && outstanding() > 0) {
    const int count = completions_.poll(kPollAtOnce, completions);
    if (count < 0) return fail(context_.port.text() + ": poll_cq returned " + std::to_string(count));
    for (int i = 0; i < count && !error_; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) {
        fail_completion(completions[i]);
      } else {
        take_completion(completions[i]);
      }
    }
    if (count < kPollAtOnce) return;
  }
}

Status VerbsStream::make_resources(QueuePair::Limits limits, size_t block_bytes) {
  const auto entries = static_cast<int>((limits.send_requests + limits.receive_requests) * queue_pairs());
  ORRERY_ASSIGN(completions_, CompletionQueue::create(context_.port, entries, &fault_));
  ORRERY_ASSIGN(block_, VerbsBlock::allocate(*context_.memory, block_bytes));
  for (size_t i = 0; i < queue_pairs(); ++i) {
    ORRERY_ASSIGN(QueuePair pair, QueuePair::create(context_.port, completions_, limits, IBV_ACCESS_REMOTE_WRITE,
                                                    context_.settings, &fault_));
    pairs_.push_back(std::move(pair));
  }
  return {};
}

ControlFrame VerbsStream::describe(ControlType type) const {
  ControlFrame frame;
  frame.magic = kControlMagic;
  frame.type = type;
  frame.kind = static_cast<uint16_t>(key_.kind);
  frame.channel = static_cast<uint16_t>(key_.channel);
  frame.from_rank = static_cast<uint32_t>(context_.rank);
  frame.communicator_id = context_.communicator_id;
  frame.queue_pairs = static_cast<uint16_t>(pairs_.size());
  frame.gid = context_.port.gid;
  frame.lid = context_.port.attributes.lid;
  frame.mtu = static_cast<uint8_t>(context_.port.attributes.active_mtu);
  for (size_t i = 0; i < pairs_.size(); ++i) frame.numbers[i] = pairs_[i].number();
  ibv_ece options;
  if (type == ControlType::kInfo && pairs_.front().query_options(options)) {
    frame.has_options = 1;
    frame.options[0] = options.vendor_id;
    frame.options[1] = options.options;
    frame.options[2] = options.comp_mask;
  }
  return frame;
}

Status VerbsStream::connect_queue_pairs(const ControlFrame& peer, uint8_t traffic_class) {
  if (peer.queue_pairs != pairs_.size()) {
    return Error{ErrorCode::kCorrupt, peer_text() + " uses another number of queue pairs"};
  }
  ibv_ece own;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (peer.has_options && pairs_[i].query_options(own)) {
      pairs_[i].set_options({peer.options[0], peer.options[1], peer.options[2]});
    }
    ORRERY_TRY(pairs_[i].connect({peer.numbers[i], peer.gid, peer.lid, peer.mtu}, traffic_class));
  }
  return {};
}

void VerbsStream::complete(const Piece& piece) {
  piece.owner->left -= piece.bytes;
  moved_ += piece.bytes;
}

void VerbsStream::fail(const std::string& what) {
  if (!error_) error_ = Error{ErrorCode::kUnavailable, "lost " + peer_text() + ": " + what};
}

void VerbsStream::fail_completion(const ibv_wc& completion) {
  std::string far_end;
  for (const auto& pair : pairs_) {
    if (pair.number() == completion.qp_num) {
      far_end = " towards " + to_text(pair.peer().gid) + " queue pair " + hex(pair.peer().queue_pair);
    }
  }
  fail(context_.port.text() + " queue pair " + hex(completion.qp_num) + far_end + ": " +
       describe_completion(completion.status));
}

void VerbsStream::leave() {
  if (!control_.is_open() || !established_) return;
  control_.send(describe(ControlType::kGoodbye));
  (void)control_.flush();
}

void VerbsStream::halt() {
  established_ = false;
  queue_.clear();
  pairs_.clear();
  drop_requests();
}

}  // namespace orrery::hostnccl
