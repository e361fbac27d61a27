#include "tools/lab/hostnccl/peer_monitor.h"

#include <sys/socket.h>

#include <cerrno>

namespace orrery::hostnccl {
namespace {

constexpr uint32_t kMagic = 0x4f484d4eu;
constexpr uint16_t kHello = 1;
constexpr uint16_t kGoodbye = 2;
constexpr uint16_t kLost = 3;

}  // namespace

PeerMonitor::PeerMonitor(int rank, const PeerTable& table, UniqueFd listener, std::chrono::seconds peer_timeout)
    : rank_(rank),
      nranks_(static_cast<int>(table.peers.size())),
      listener_(std::move(listener)),
      peer_timeout_(peer_timeout) {
  if (rank_ == 0) return;
  // Blocking for one handshake: rank 0 listens already. Without the connection this rank merely is not watched.
  auto fd = connect_before(table.peers[0].monitor, Clock::now() + std::chrono::seconds(5));
  if (!fd) return;
  bound_silence(fd->get(), peer_timeout_);
  members_.push_back({.fd = std::move(*fd), .rank = 0});
  send_message(members_.back(), kHello, rank_);
}

void PeerMonitor::collect(std::vector<pollfd>& fds) {
  first_poll_ = fds.size();
  polled_members_ = members_.size();
  for (const auto& member : members_) fds.push_back({member.fd.get(), POLLIN, 0});  // poll ignores -1
  if (listener_) fds.push_back({listener_.get(), POLLIN, 0});
}

void PeerMonitor::handle(const std::vector<pollfd>& fds) {
  for (size_t i = 0; i < polled_members_; ++i) {
    if (fds[first_poll_ + i].revents != 0) read_member(members_[i]);
  }
  if (!listener_ || fds[first_poll_ + polled_members_].revents == 0) return;
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;
    prepare_accepted(fd.get());
    bound_silence(fd.get(), peer_timeout_);
    members_.push_back({.fd = std::move(fd)});
  }
}

void PeerMonitor::announce_lost(int rank) {
  for (auto& member : members_) {
    if (member.rank != rank) send_message(member, kLost, rank);
  }
}

void PeerMonitor::say_goodbye() {
  for (auto& member : members_) send_message(member, kGoodbye, rank_);
}

// The socket buffer of an idle connection holds far more than the few messages a communicator ever sends.
void PeerMonitor::send_message(Member& member, uint16_t type, int rank) {
  if (!member.fd) return;
  const Message message{kMagic, type, 0, rank};
  (void)::send(member.fd.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void PeerMonitor::read_member(Member& member) {
  while (member.fd) {
    auto* bytes = reinterpret_cast<char*>(&member.partial);
    const ssize_t got = ::recv(member.fd.get(), bytes + member.have, sizeof member.partial - member.have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      member.fd.reset();
      if (!member.said_goodbye && member.rank >= 0) {
        note_lost(member.rank);
        if (rank_ == 0) announce_lost(member.rank);
      }
      return;
    }
    member.have += static_cast<size_t>(got);
    if (member.have == sizeof member.partial) take_message(member);
  }
}

void PeerMonitor::take_message(Member& member) {
  const Message message = member.partial;
  member.have = 0;
  if (message.magic != kMagic || message.rank < 0 || message.rank >= nranks_) {
    member.fd.reset();
    return;
  }
  if (message.type == kHello && rank_ == 0) {
    member.rank = message.rank;
    if (lost_) send_message(member, kLost, *lost_);
  } else if (message.type == kGoodbye) {
    member.said_goodbye = true;
  } else if (message.type == kLost) {
    note_lost(message.rank);
    if (rank_ == 0) announce_lost(message.rank);
  }
}

void PeerMonitor::note_lost(int rank) {
  if (!lost_ && rank != rank_) lost_ = rank;
}

}  // namespace orrery::hostnccl
