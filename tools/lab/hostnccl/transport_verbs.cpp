#include "tools/lab/hostnccl/transport_verbs.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tools/lab/hostnccl/diagnostics.h"

namespace orrery::hostnccl {
namespace {

constexpr uint32_t kSocketInterval = 16;  // polls of the devices between two looks at the sockets

timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto count = std::max<long long>(duration.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

// `empty` polls in a row have found nothing, at least spins + yields.
std::chrono::microseconds nap_after(uint64_t empty, const PollSettings& poll) {
  const uint64_t naps = std::min<uint64_t>(empty - poll.spins - poll.yields, 20);
  const uint64_t longest = std::max(poll.sleep_us, poll.sleep_max_us);
  return std::chrono::microseconds(std::min(uint64_t{poll.sleep_us} << naps, longest));
}

class VerbsHold final : public MemoryHold {
 public:
  VerbsHold(VerbsMemory& memory, VerbsMemory::Region* region) : memory_(memory), region_(region) {}
  ~VerbsHold() override { memory_.release(region_); }

 private:
  VerbsMemory& memory_;
  VerbsMemory::Region* region_;
};

}  // namespace

VerbsTransport::VerbsTransport(int rank, PeerTable table, UniqueFd listener, const VerbsPort& port,
                               const Settings& settings)
    : table_(std::move(table)),
      listener_(std::move(listener)),
      context_{.rank = rank,
               .communicator_id = table_.communicator_id,
               .shared = table_.shared,
               .settings = settings.verbs,
               .peer_timeout = settings.peer_timeout,
               .port = port},
      memory_(context_.port, settings.verbs.relaxed_ordering) {
  context_.memory = &memory_;
  log_info(0, "NET/IB : Using [0]" + port.text() + " GID " + std::to_string(port.gid_index) + " " + to_text(port.gid) +
                  " ; OOB " + to_text(table_.peers[static_cast<size_t>(rank)].data));
}

VerbsTransport::~VerbsTransport() = default;

Stream& VerbsTransport::sender(const StreamKey& key) {
  auto& stream = senders_[key];
  if (!stream) {
    stream = std::make_unique<VerbsSender>(context_, key, table_.peers[static_cast<size_t>(key.peer)].data);
    stream->connect();
  }
  return *stream;
}

VerbsReceiver& VerbsTransport::open_receiver(const StreamKey& key) {
  auto& stream = receivers_[key];
  if (!stream) {
    stream = std::make_unique<VerbsReceiver>(context_, key, table_.peers[static_cast<size_t>(key.peer)].data);
  }
  return *stream;
}

Stream& VerbsTransport::receiver(const StreamKey& key) {
  return open_receiver(key);
}

std::optional<int> VerbsTransport::lost_peer() const {
  for (const auto& [key, stream] : senders_) {
    if (stream->error()) return key.peer;
  }
  for (const auto& [key, stream] : receivers_) {
    if (stream->error()) return key.peer;
  }
  return std::nullopt;
}

// What cannot be registered is reported by the transfer that needs it.
std::unique_ptr<MemoryHold> VerbsTransport::hold(const void* data, size_t bytes, bool written) {
  if (!data || bytes <= kStagedBytes) return nullptr;
  auto region = memory_.acquire(data, bytes, written ? VerbsMemory::Use::kReadWrite : VerbsMemory::Use::kRead);
  if (!region) return nullptr;
  return std::make_unique<VerbsHold>(memory_, *region);
}

void VerbsTransport::leave() {
  for_each_stream([](VerbsStream& stream) { stream.leave(); });
}

void VerbsTransport::halt() {
  for_each_stream([](VerbsStream& stream) { stream.halt(); });
  memory_.revoke();
}

size_t VerbsTransport::progress() {
  size_t moved = 0;
  for_each_stream([&moved](VerbsStream& stream) { moved += stream.progress(); });
  return moved;
}

size_t VerbsTransport::count_failures() const {
  size_t count = 0;
  for_each_stream([&count](const VerbsStream& stream) { count += stream.error() ? 1 : 0; });
  return count;
}

bool VerbsTransport::needs_polling() const {
  bool needs = false;
  for_each_stream([&needs](const VerbsStream& stream) { needs = needs || stream.needs_polling(); });
  return needs;
}

// A stream that fails ends the wait too: the task has to see it.
Result<size_t> VerbsTransport::step(std::vector<pollfd>& extra, std::chrono::nanoseconds max_wait) {
  const PollSettings& poll = context_.settings.poll;
  const Deadline until = Clock::now() + max_wait;
  for (auto& fd : extra) fd.revents = 0;
  for (uint64_t empty = 0;; ++empty) {
    const size_t moved = progress();
    const size_t failures = count_failures();
    const bool done = moved > 0 || std::exchange(failures_, failures) != failures;
    const bool sleeps = !done && (!needs_polling() || empty >= uint64_t{poll.spins} + poll.yields);
    if (sleeps || ++steps_ >= kSocketInterval) {
      steps_ = 0;
      std::chrono::nanoseconds wait{0};
      if (sleeps) {
        wait = std::max<std::chrono::nanoseconds>(until - Clock::now(), std::chrono::nanoseconds(0));
        if (needs_polling()) wait = std::min<std::chrono::nanoseconds>(wait, nap_after(empty, poll));
      }
      ORRERY_ASSIGN(const bool event, poll_sockets(extra, wait));
      if (event || Clock::now() >= until) return moved;
    }
    if (done) return moved;
    if (empty >= poll.spins) ::sched_yield();
  }
}

Result<bool> VerbsTransport::poll_sockets(std::vector<pollfd>& extra, std::chrono::nanoseconds wait) {
  const Deadline now = Clock::now();
  poll_fds_.assign(extra.begin(), extra.end());
  const size_t listener_index = poll_fds_.size();
  poll_fds_.push_back({listener_.get(), POLLIN, 0});
  const size_t incoming_count = incoming_.size();
  for (const auto& incoming : incoming_) poll_fds_.push_back({incoming.fd(), POLLIN, 0});
  for_each_stream([&](VerbsStream& stream) { stream.collect(poll_fds_, now, wait); });
  const timespec timeout = to_timespec(wait);
  const int ready = ::ppoll(poll_fds_.data(), poll_fds_.size(), &timeout, nullptr);
  if (ready < 0 && errno != EINTR) return system_error("ppoll", errno);
  if (ready <= 0) return false;
  std::copy_n(poll_fds_.begin(), extra.size(), extra.begin());
  for_each_stream([this](VerbsStream& stream) { stream.handle(poll_fds_); });
  for (size_t i = incoming_count; i-- > 0;) {
    if (poll_fds_[listener_index + 1 + i].revents == 0) continue;
    if (!read_first_frame(incoming_[i])) incoming_.erase(incoming_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (poll_fds_[listener_index].revents != 0) accept_all();
  return true;
}

void VerbsTransport::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;  // EAGAIN, or a fault of that one connection
    prepare_accepted(fd.get());
    incoming_.emplace_back(std::move(fd));
  }
}

bool VerbsTransport::read_first_frame(ControlChannel& incoming) {
  auto frame = incoming.receive();
  if (!frame) return false;
  if (!*frame) return true;
  const ControlFrame& hello = **frame;
  const auto kind = static_cast<StreamKind>(hello.kind);
  const bool known_kind = kind == StreamKind::kRing || kind == StreamKind::kPointToPoint;
  if (hello.type != ControlType::kInfo || hello.communicator_id != table_.communicator_id || !known_kind ||
      hello.from_rank >= table_.peers.size() || hello.channel >= table_.shared.channels) {
    return false;
  }
  open_receiver({static_cast<int>(hello.from_rank), kind, hello.channel}).adopt(std::move(incoming), hello);
  return false;
}

}  // namespace orrery::hostnccl
