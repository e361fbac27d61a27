#include "tools/lab/hostnccl/bootstrap.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/socket.h"

namespace orrery::hostnccl {
namespace {

constexpr uint32_t kMagic = 0x4f48424eu;
constexpr auto kExchangeTimeout = std::chrono::seconds(10);  // one rank's few hundred bytes, once it is connected

// The 128 bytes of an id.
struct IdLayout {
  uint32_t magic = kMagic;
  uint32_t served_by_rank0 = 0;  // 1: from NCCL_COMM_ID
  sockaddr_in root{};
  uint64_t nonce[2] = {};
  uint8_t unused[88] = {};
};
static_assert(sizeof(IdLayout) == NCCL_UNIQUE_ID_BYTES);

struct JoinRequest {
  uint32_t magic = kMagic;
  int32_t rank = 0;
  int32_t nranks = 0;
  uint32_t reserved = 0;
  uint64_t nonce[2] = {};
  PeerAddress address;
  SharedSettings shared;
};

// Followed by `entries` x PeerAddress, or by `text_bytes` of an error.
struct JoinReply {
  uint32_t magic = kMagic;
  uint32_t entries = 0;
  uint32_t text_bytes = 0;
  uint32_t reserved = 0;
  SharedSettings shared;
};

struct Joined {
  UniqueFd fd;
  JoinRequest request;
};

class Root {
 public:
  Root(UniqueFd listener, IdLayout id, std::chrono::seconds timeout)
      : listener_(std::move(listener)), id_(id), timeout_(timeout) {}

  void serve() {
    std::string fault;
    // Nobody may ever use an id; the clock starts with the first rank that joins.
    Deadline deadline = Clock::now() + std::chrono::hours(24 * 365);
    while (fault.empty() && (joined_.empty() || arrived() < joined_.size())) {
      auto fd = accept_before(listener_.get(), deadline);
      if (!fd) {
        fault = missing_ranks();
        break;
      }
      fault = admit(std::move(*fd));
      if (!joined_.empty() && arrived() == 1) deadline = Clock::now() + timeout_;
    }
    // Rank 0 last: this thread is usually part of its process, which may end any time after.
    for (size_t rank = joined_.size(); rank-- > 0;) {
      if (joined_[rank]) answer(joined_[rank]->fd.get(), fault);
    }
  }

 private:
  size_t arrived() const {
    size_t count = 0;
    for (const auto& member : joined_) count += member ? 1 : 0;
    return count;
  }

  // Returns a fault that ends the whole exchange. A stranger is ignored.
  std::string admit(UniqueFd fd) {
    JoinRequest request;
    if (!receive_all(fd.get(), &request, sizeof request, Clock::now() + kExchangeTimeout)) return {};
    if (request.magic != kMagic || std::memcmp(request.nonce, id_.nonce, sizeof id_.nonce) != 0) return {};
    if (request.nranks < 1 || request.rank < 0 || request.rank >= request.nranks) return {};
    if (joined_.empty()) joined_.resize(static_cast<size_t>(request.nranks));
    std::string fault;
    if (static_cast<size_t>(request.nranks) != joined_.size()) {
      fault = "rank " + std::to_string(request.rank) + " says the communicator has " + std::to_string(request.nranks) +
              " ranks, another says " + std::to_string(joined_.size());
      answer(fd.get(), fault);
      return fault;
    }
    auto& place = joined_[static_cast<size_t>(request.rank)];
    if (place) {
      fault = "two processes joined as rank " + std::to_string(request.rank);
      answer(fd.get(), fault);
      return fault;
    }
    place = Joined{std::move(fd), request};
    return {};
  }

  std::string missing_ranks() const {
    std::string text;
    for (size_t rank = 0; rank < joined_.size(); ++rank) {
      if (!joined_[rank]) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return "of " + std::to_string(joined_.size()) + " ranks these have not joined within " +
           std::to_string(timeout_.count()) + " s: " + text + " (check that they run and reach " + to_text(id_.root) +
           "; HOSTNCCL_JOIN_TIMEOUT_S waits longer)";
  }

  void answer(int fd, const std::string& fault) {
    const Deadline deadline = Clock::now() + kExchangeTimeout;
    JoinReply reply;
    std::vector<PeerAddress> table;
    if (fault.empty()) {
      for (const auto& member : joined_) table.push_back(member->request.address);
      reply.entries = static_cast<uint32_t>(table.size());
      reply.shared = joined_[0]->request.shared;
    }
    reply.text_bytes = static_cast<uint32_t>(fault.size());
    if (!send_all(fd, &reply, sizeof reply, deadline)) return;
    if (!send_all(fd, table.data(), table.size() * sizeof(PeerAddress), deadline)) return;
    (void)send_all(fd, fault.data(), fault.size(), deadline);
  }

  UniqueFd listener_;
  IdLayout id_;
  std::chrono::seconds timeout_;
  std::vector<std::optional<Joined>> joined_;
};

// Detached on purpose: like NCCL's, the thread belongs to the id, which has no end of life that a caller announces.
void start_root(UniqueFd listener, const IdLayout& id, const Settings& settings) {
  auto root = std::make_unique<Root>(std::move(listener), id, settings.join_timeout);
  std::thread([owned = std::move(root)] { owned->serve(); }).detach();
}

ncclUniqueId to_id(const IdLayout& layout) {
  ncclUniqueId id;
  std::memcpy(id.internal, &layout, sizeof layout);
  return id;
}

}  // namespace

Result<ncclUniqueId> make_unique_id(const Settings& settings) {
  IdLayout layout;
  if (const char* fixed = std::getenv("NCCL_COMM_ID")) {
    ORRERY_ASSIGN(layout.root, parse_address(fixed));
    layout.served_by_rank0 = 1;
    return to_id(layout);
  }
  std::random_device random;
  for (auto& word : layout.nonce) word = (static_cast<uint64_t>(random()) << 32) | random();
  ORRERY_ASSIGN(layout.root, choose_local_address(settings.interface));
  layout.root.sin_port = 0;
  ORRERY_ASSIGN(UniqueFd listener, listen_on(layout.root));
  log_info(0, "Bootstrap : unique id served at " + to_text(layout.root));
  start_root(std::move(listener), layout, settings);
  return to_id(layout);
}

Result<PeerTable> exchange_addresses(const ncclUniqueId& id, int rank, int nranks, const PeerAddress& own,
                                     const Settings& settings) {
  IdLayout layout;
  std::memcpy(&layout, id.internal, sizeof layout);
  if (layout.magic != kMagic) {
    return Error{ErrorCode::kInvalidArgument, "the unique id was not made by this library's ncclGetUniqueId"};
  }
  if (layout.served_by_rank0 && rank == 0) {
    ORRERY_ASSIGN(UniqueFd listener, listen_on(layout.root));
    start_root(std::move(listener), layout, settings);
  }
  const Deadline deadline = Clock::now() + settings.join_timeout + kExchangeTimeout;
  auto fd = connect_before(layout.root, layout.served_by_rank0 ? deadline : Clock::now() + settings.peer_timeout);
  if (!fd) {
    return Error{fd.error().code,
                 "rank " + std::to_string(rank) + " cannot reach the maker of the unique id: " + fd.error().message};
  }
  JoinRequest request{.rank = rank, .nranks = nranks, .address = own, .shared = settings.shared};
  std::memcpy(request.nonce, layout.nonce, sizeof layout.nonce);
  JoinReply reply;
  ORRERY_TRY(send_all(fd->get(), &request, sizeof request, deadline));
  if (auto got = receive_all(fd->get(), &reply, sizeof reply, deadline); !got) {
    return Error{got.error().code, "rank " + std::to_string(rank) + " waited for the address table from " +
                                       to_text(layout.root) + ": " + got.error().message};
  }
  if (reply.magic != kMagic || reply.text_bytes > 4096) return Error{ErrorCode::kCorrupt, "malformed address table"};
  if (reply.text_bytes > 0) {
    std::string text(reply.text_bytes, '\0');
    ORRERY_TRY(receive_all(fd->get(), text.data(), text.size(), deadline));
    return Error{ErrorCode::kRefused, text};
  }
  if (reply.entries != static_cast<uint32_t>(nranks)) return Error{ErrorCode::kCorrupt, "malformed address table"};
  PeerTable table{.communicator_id = hash_id(id), .shared = reply.shared};
  table.peers.resize(reply.entries);
  ORRERY_TRY(receive_all(fd->get(), table.peers.data(), table.peers.size() * sizeof(PeerAddress), deadline));
  return table;
}

uint64_t hash_id(const ncclUniqueId& id) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char byte : id.internal) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace orrery::hostnccl
