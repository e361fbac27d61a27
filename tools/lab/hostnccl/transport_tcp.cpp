#include "tools/lab/hostnccl/transport_tcp.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/lab/hostnccl/diagnostics.h"

namespace orrery::hostnccl {
namespace {

constexpr uint32_t kHelloMagic = 0x4f48444cu;
constexpr auto kHeldRetry = std::chrono::microseconds(200);
constexpr size_t kMinPieceBytes = 8 << 10;  // about one jumbo frame: smaller pieces are not worth another socket

timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto count = std::max<long long>(duration.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

}  // namespace

// One direction to or from one peer. A lane is one connection with the pieces queued on it.
class TcpStream final : public Stream {
 public:
  struct Piece {
    uint8_t* data;
    size_t bytes;
    Transfer* owner;
  };
  struct Lane {
    UniqueFd fd;
    bool connecting = false;
    TcpTransport::Hello hello;
    size_t hello_left = 0;
    std::deque<Piece> pieces;
    Deadline held_until{};  // a refused send waits until then
    int poll_index = -1;
  };

  TcpStream(const StreamKey& key, bool sends, size_t lanes, const sockaddr_in& address, std::chrono::seconds timeout)
      : lanes_(lanes), key_(key), sends_(sends), address_(address), timeout_(timeout) {}

  void post(Transfer& transfer) override {
    transfer.left = transfer.bytes;
    const size_t piece = lanes_.size() == 1
                             ? transfer.bytes
                             : std::max(kMinPieceBytes, (transfer.bytes + lanes_.size() - 1) / lanes_.size());
    for (size_t offset = 0; offset < transfer.bytes; offset += piece) {
      const size_t bytes = std::min(piece, transfer.bytes - offset);
      lanes_[next_lane_].pieces.push_back({transfer.data + offset, bytes, &transfer});
      next_lane_ = (next_lane_ + 1) % lanes_.size();
    }
  }
  void post(Transfer& first, Transfer& second) override {
    post(first);
    post(second);
  }
  const std::optional<Error>& error() const override { return error_; }
  std::string peer_text() const override {
    return "rank " + std::to_string(key_.peer) + " (" + to_text(address_) + ")";
  }

  void connect(const TcpTransport::Hello& hello) {
    give_up_ = Clock::now() + timeout_;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].hello = hello;
      lanes_[i].hello.lane = static_cast<uint32_t>(i);
      connect_lane(lanes_[i]);
    }
  }

  void adopt(size_t lane, UniqueFd fd) {
    if (lane >= lanes_.size() || lanes_[lane].fd) return;
    bound_silence(fd.get(), timeout_);
    lanes_[lane].fd = std::move(fd);
  }

  // Adds what each lane waits for; lowers `wait` to the earliest retry.
  void collect(std::vector<pollfd>& fds, Deadline now, std::chrono::nanoseconds& wait) {
    for (auto& lane : lanes_) {
      lane.poll_index = -1;
      if (error_) continue;
      const bool idle = lane.pieces.empty() && lane.hello_left == 0 && !lane.connecting;
      if (idle || (!lane.fd && !sends_)) continue;
      if (lane.held_until > now) {
        wait = std::min<std::chrono::nanoseconds>(wait, lane.held_until - now);
        continue;
      }
      if (!lane.fd) {  // a connect that failed at once and is due again
        connect_lane(lane);
        if (!lane.fd) {
          wait = std::min<std::chrono::nanoseconds>(wait, kConnectRetry);
          continue;
        }
      }
      lane.poll_index = static_cast<int>(fds.size());
      fds.push_back({lane.fd.get(), static_cast<short>(sends_ ? POLLOUT : POLLIN), 0});
    }
  }

  size_t move_ready(const std::vector<pollfd>& fds) {
    size_t moved = 0;
    for (auto& lane : lanes_) {
      if (error_ || lane.poll_index < 0 || fds[static_cast<size_t>(lane.poll_index)].revents == 0) continue;
      if (lane.connecting && !finish_connect(lane)) continue;
      moved += sends_ ? send_pieces(lane) : receive_pieces(lane);
    }
    return moved;
  }

 private:
  static constexpr auto kConnectRetry = std::chrono::milliseconds(50);

  void fail(const std::string& what) {
    if (!error_) error_ = Error{ErrorCode::kUnavailable, "lost " + peer_text() + ": " + what};
  }

  void connect_lane(Lane& lane) {
    auto fd = start_connect(address_);
    if (!fd && fd.error().code == ErrorCode::kUnavailable) return retry_connect(lane, fd.error().message);
    if (!fd) return fail(fd.error().message);
    bound_silence(fd->get(), timeout_);
    lane.fd = std::move(*fd);
    lane.connecting = true;
    lane.hello_left = sizeof lane.hello;
  }

  // A peer's listener exists before its address is known, so a refusal means that the process is gone; other faults may
  // pass.
  void retry_connect(Lane& lane, const std::string& reason) {
    lane.fd.reset();
    lane.connecting = false;
    lane.hello_left = sizeof lane.hello;
    lane.held_until = Clock::now() + kConnectRetry;
    if (Clock::now() >= give_up_) fail(reason);
  }

  bool finish_connect(Lane& lane) {
    int reason = 0;
    socklen_t length = sizeof reason;
    ::getsockopt(lane.fd.get(), SOL_SOCKET, SO_ERROR, &reason, &length);
    if (reason == 0) {
      lane.connecting = false;
      log_connection(lane.fd.get());
      return true;
    }
    const std::string text = system_error("connect", reason).message;
    if (reason == ECONNREFUSED) {
      fail(text);
    } else {
      retry_connect(lane, text);
    }
    return false;
  }

  // The demo reads it, to simulate what hashing did to this very connection.
  void log_connection(int fd) const {
    if (debug_level() < DebugLevel::kInfo) return;
    sockaddr_in own{};
    socklen_t length = sizeof own;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length);
    log_info(0, "NET/Socket : connected " + to_text(own) + " to " + to_text(address_));
  }

  // One send; returns bytes sent, 0 when the socket takes no more. `more`: what is queued behind follows at once and
  // may share a packet.
  size_t send_some(Lane& lane, const void* data, size_t bytes, bool more, bool first) {
    for (;;) {
      const ssize_t sent = ::send(lane.fd.get(), data, bytes, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
      if (sent >= 0) return static_cast<size_t>(sent);
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS) {
        if (first) lane.held_until = Clock::now() + kHeldRetry;  // poll said writable: held back from outside
      } else {
        fail(system_error("send", errno).message);
      }
      return 0;
    }
  }

  size_t send_pieces(Lane& lane) {
    size_t moved = 0;
    bool first = true;
    while (lane.hello_left > 0 || !lane.pieces.empty()) {
      if (lane.hello_left > 0) {
        const auto* hello = reinterpret_cast<const char*>(&lane.hello) + (sizeof lane.hello - lane.hello_left);
        const size_t sent = send_some(lane, hello, lane.hello_left, !lane.pieces.empty(), first);
        if (sent == 0) break;
        lane.hello_left -= sent;
      } else {
        Piece& piece = lane.pieces.front();
        const size_t sent = send_some(lane, piece.data, piece.bytes, lane.pieces.size() > 1, first);
        if (sent == 0) break;
        moved += sent;
        if (consume(lane, sent)) break;
      }
      first = false;
    }
    return moved;
  }

  size_t receive_pieces(Lane& lane) {
    size_t moved = 0;
    while (!lane.pieces.empty()) {
      Piece& piece = lane.pieces.front();
      const ssize_t got = ::recv(lane.fd.get(), piece.data, piece.bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) break;
      if (got < 0) {
        fail(system_error("recv", errno).message);
        break;
      }
      if (got == 0) {
        fail("it closed the connection");
        break;
      }
      moved += static_cast<size_t>(got);
      if (consume(lane, static_cast<size_t>(got))) break;
    }
    return moved;
  }

  // Takes `bytes` off the first piece. True when it was a short move: the socket has no more for now.
  static bool consume(Lane& lane, size_t bytes) {
    Piece& piece = lane.pieces.front();
    piece.owner->left -= bytes;
    if (bytes < piece.bytes) {
      piece.data += bytes;
      piece.bytes -= bytes;
      return true;
    }
    lane.pieces.pop_front();
    return false;
  }

  std::vector<Lane> lanes_;
  size_t next_lane_ = 0;
  StreamKey key_;
  bool sends_;
  sockaddr_in address_;
  std::chrono::seconds timeout_;
  Deadline give_up_{};
  std::optional<Error> error_;
};

TcpTransport::TcpTransport(int rank, PeerTable table, UniqueFd listener, std::chrono::seconds peer_timeout)
    : rank_(rank), table_(std::move(table)), listener_(std::move(listener)), peer_timeout_(peer_timeout) {}

TcpTransport::~TcpTransport() = default;

TcpStream& TcpTransport::open(std::map<StreamKey, std::unique_ptr<TcpStream>>& streams, const StreamKey& key,
                              bool sends) {
  auto& stream = streams[key];
  if (stream) return *stream;
  const sockaddr_in& address = table_.peers[static_cast<size_t>(key.peer)].data;
  stream = std::make_unique<TcpStream>(key, sends, table_.shared.sockets, address, peer_timeout_);
  if (sends) {
    stream->connect({kHelloMagic, static_cast<uint16_t>(key.kind), static_cast<uint16_t>(key.channel),
                     table_.communicator_id, static_cast<uint32_t>(rank_), 0});
  }
  return *stream;
}

Stream& TcpTransport::sender(const StreamKey& key) {
  return open(senders_, key, true);
}
Stream& TcpTransport::receiver(const StreamKey& key) {
  return open(receivers_, key, false);
}

std::optional<int> TcpTransport::lost_peer() const {
  for (const auto* streams : {&senders_, &receivers_}) {
    for (const auto& [key, stream] : *streams) {
      if (stream->error()) return key.peer;
    }
  }
  return std::nullopt;
}

void TcpTransport::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;  // EAGAIN, or a fault of that one connection
    prepare_accepted(fd.get());
    incoming_.push_back({std::move(fd), {}, 0});
  }
}

bool TcpTransport::read_hello(Incoming& incoming) {
  auto* bytes = reinterpret_cast<char*>(&incoming.hello);
  const ssize_t got = ::recv(incoming.fd.get(), bytes + incoming.have, sizeof incoming.hello - incoming.have, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  incoming.have += static_cast<size_t>(got);
  if (incoming.have < sizeof incoming.hello) return true;
  const Hello& hello = incoming.hello;
  const auto kind = static_cast<StreamKind>(hello.kind);
  const bool known_kind = kind == StreamKind::kRing || kind == StreamKind::kPointToPoint;
  if (hello.magic != kHelloMagic || hello.communicator_id != table_.communicator_id || !known_kind ||
      hello.from_rank >= table_.peers.size() || hello.channel >= table_.shared.channels) {
    return false;
  }
  const StreamKey key{static_cast<int>(hello.from_rank), kind, hello.channel};
  open(receivers_, key, false).adopt(hello.lane, std::move(incoming.fd));
  return false;
}

Result<size_t> TcpTransport::step(std::vector<pollfd>& extra, std::chrono::nanoseconds max_wait) {
  const Deadline now = Clock::now();
  poll_fds_.assign(extra.begin(), extra.end());
  const size_t listener_index = poll_fds_.size();
  poll_fds_.push_back({listener_.get(), POLLIN, 0});
  const size_t incoming_count = incoming_.size();
  for (const auto& incoming : incoming_) poll_fds_.push_back({incoming.fd.get(), POLLIN, 0});
  for (auto* streams : {&senders_, &receivers_}) {
    for (auto& [key, stream] : *streams) stream->collect(poll_fds_, now, max_wait);
  }
  const timespec timeout = to_timespec(max_wait);
  const int ready = ::ppoll(poll_fds_.data(), poll_fds_.size(), &timeout, nullptr);
  if (ready < 0 && errno != EINTR) return system_error("ppoll", errno);
  if (ready <= 0) {
    for (auto& fd : extra) fd.revents = 0;
    return size_t{0};
  }
  std::copy_n(poll_fds_.begin(), extra.size(), extra.begin());
  size_t moved = 0;
  for (auto* streams : {&senders_, &receivers_}) {
    for (auto& [key, stream] : *streams) moved += stream->move_ready(poll_fds_);
  }
  for (size_t i = incoming_count; i-- > 0;) {
    if (poll_fds_[listener_index + 1 + i].revents == 0) continue;
    if (!read_hello(incoming_[i])) incoming_.erase(incoming_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (poll_fds_[listener_index].revents != 0) accept_all();
  return moved;
}

}  // namespace orrery::hostnccl
