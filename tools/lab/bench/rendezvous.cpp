#include "tools/lab/bench/rendezvous.h"

#include <chrono>

#include "tools/lab/hostnccl/socket.h"

namespace orrery::bench {
namespace {

using hostnccl::Clock;

constexpr uint32_t kMagic = 0x4f424e43u;
constexpr auto kStepTimeout = std::chrono::minutes(30);  // a slow iteration of another rank, not a network delay

struct Greeting {
  uint32_t magic = kMagic;
  int32_t rank = 0;
  int32_t nranks = 0;
};

hostnccl::Deadline after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string missing(const std::vector<UniqueFd>& peers) {
  std::string text;
  for (size_t rank = 1; rank < peers.size(); ++rank) {
    if (!peers[rank]) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

Status accept_ranks(int listener, std::vector<UniqueFd>& peers, hostnccl::Deadline deadline) {
  for (size_t joined = 1; joined < peers.size();) {
    auto fd = hostnccl::accept_before(listener, deadline);
    if (!fd) return Error{fd.error().code, "these ranks did not come to the rendezvous: " + missing(peers)};
    Greeting greeting;
    if (!hostnccl::receive_all(fd->get(), &greeting, sizeof greeting, Clock::now() + std::chrono::seconds(5))) continue;
    if (greeting.magic != kMagic) continue;
    const auto rank = static_cast<size_t>(greeting.rank);
    if (greeting.nranks != static_cast<int>(peers.size()) || greeting.rank < 1 || rank >= peers.size() || peers[rank]) {
      return Error{ErrorCode::kInvalidArgument, "rank " + std::to_string(greeting.rank) + " of " +
                                                    std::to_string(greeting.nranks) + " came to a rendezvous of " +
                                                    std::to_string(peers.size()) + " where it has no free place"};
    }
    peers[rank] = std::move(*fd);
    ++joined;
  }
  return {};
}

}  // namespace

Result<Rendezvous> Rendezvous::meet(const std::string& master, int rank, int nranks, double timeout_s) {
  Rendezvous rendezvous(rank, nranks);
  if (nranks == 1) return rendezvous;
  ORRERY_ASSIGN(sockaddr_in address, hostnccl::parse_address(master));
  const auto deadline = after(timeout_s);
  if (rank == 0) {
    address.sin_addr.s_addr = INADDR_ANY;
    ORRERY_ASSIGN(const UniqueFd listener, hostnccl::listen_on(address));
    rendezvous.peers_.resize(static_cast<size_t>(nranks));
    ORRERY_TRY(accept_ranks(listener.get(), rendezvous.peers_, deadline));
  } else {
    ORRERY_ASSIGN(UniqueFd fd, hostnccl::connect_before(address, deadline));
    const Greeting greeting{.rank = rank, .nranks = nranks};
    ORRERY_TRY(hostnccl::send_all(fd.get(), &greeting, sizeof greeting, deadline));
    rendezvous.peers_.push_back(std::move(fd));
  }
  ORRERY_TRY(rendezvous.barrier());
  return rendezvous;
}

Status Rendezvous::broadcast(void* data, size_t bytes) {
  const auto deadline = Clock::now() + kStepTimeout;
  if (rank_ != 0) return hostnccl::receive_all(peers_[0].get(), data, bytes, deadline);
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    ORRERY_TRY(hostnccl::send_all(peers_[rank].get(), data, bytes, deadline));
  }
  return {};
}

Result<std::vector<std::vector<char>>> Rendezvous::gather(const void* data, size_t bytes) {
  const auto deadline = Clock::now() + kStepTimeout;
  std::vector<std::vector<char>> all;
  uint64_t length = bytes;
  if (rank_ != 0) {
    ORRERY_TRY(hostnccl::send_all(peers_[0].get(), &length, sizeof length, deadline));
    ORRERY_TRY(hostnccl::send_all(peers_[0].get(), data, bytes, deadline));
    return all;
  }
  const auto* own = static_cast<const char*>(data);
  all.emplace_back(own, own + bytes);
  for (size_t rank = 1; rank < peers_.size(); ++rank) {
    ORRERY_TRY(hostnccl::receive_all(peers_[rank].get(), &length, sizeof length, deadline));
    if (length > (uint64_t{1} << 32)) return Error{ErrorCode::kCorrupt, "malformed message at the rendezvous"};
    all.emplace_back(length);
    ORRERY_TRY(hostnccl::receive_all(peers_[rank].get(), all.back().data(), length, deadline));
  }
  return all;
}

Status Rendezvous::barrier() {
  if (nranks_ == 1) return {};
  ORRERY_TRY(gather(nullptr, 0));
  char byte = 0;
  return broadcast(&byte, 1);
}

}  // namespace orrery::bench
