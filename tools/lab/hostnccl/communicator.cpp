#include "tools/lab/hostnccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/network.h"
#include "tools/lab/hostnccl/stream_order.h"

namespace orrery::hostnccl {
namespace {

std::string channel_text(uint32_t channel, uint32_t channels) {
  const auto two = [](uint32_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return two(channel) + "/" + two(channels);
}

uint64_t hash_words(std::initializer_list<uint64_t> words) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ ((word >> shift) & 0xffu)) * 0x100000001b3u;
  }
  return hash;
}

// What each rank of a splitting communicator tells the others.
struct SplitRecord {
  int32_t color = 0;
  int32_t key = 0;
  PeerAddress address;
};

}  // namespace

struct Communicator::Endpoints {
  PeerAddress address;
  UniqueFd data;
  UniqueFd monitor;

  static Result<Endpoints> open(const Settings& settings) {
    Endpoints endpoints;
    ORRERY_ASSIGN(sockaddr_in local, choose_local_address(settings.interface));
    local.sin_port = 0;
    endpoints.address = {local, local};
    ORRERY_ASSIGN(endpoints.data, listen_on(endpoints.address.data));
    ORRERY_ASSIGN(endpoints.monitor, listen_on(endpoints.address.monitor));
    ORRERY_ASSIGN(endpoints.address.networks, usable_networks(settings, local));
    return endpoints;
  }
};

Communicator::Communicator(int rank, int nranks, int device, bool blocking)
    : rank_(rank), nranks_(nranks), device_(device), blocking_(blocking) {}

Communicator::~Communicator() {
  if (set_up_thread_.joinable()) set_up_thread_.join();
  proxy_.reset();
  magic_ = 0;
}

Status Communicator::connect(const ncclUniqueId& id) {
  ORRERY_ASSIGN(const Settings settings, read_settings());
  ORRERY_ASSIGN(Endpoints endpoints, Endpoints::open(settings));
  PeerTable table{.communicator_id = hash_id(id), .shared = settings.shared, .peers = {endpoints.address}};
  if (nranks_ > 1) {
    ORRERY_ASSIGN(table, exchange_addresses(id, rank_, nranks_, endpoints.address, settings));
  }
  return start(std::move(table), std::move(endpoints));
}

Status Communicator::start(PeerTable table, Endpoints endpoints) {
  ORRERY_ASSIGN(const Settings settings, read_settings());
  ORRERY_ASSIGN(network_, agree_on_network(table));
  if (table.shared.slice_bytes == 0) table.shared.slice_bytes = default_slice_bytes(network_);
  id_ = table.communicator_id;
  shared_ = table.shared;
  Proxy::Parts parts{.rank = rank_, .device = device_, .table = table};
  if (rank_ != 0) endpoints.monitor.reset();
  parts.monitor = std::make_unique<PeerMonitor>(rank_, table, std::move(endpoints.monitor), settings.peer_timeout);
  ORRERY_ASSIGN(parts.transport,
                make_transport(network_, rank_, std::move(table), std::move(endpoints.data), settings));
  ORRERY_ASSIGN(proxy_, Proxy::start(std::move(parts)));
  log_ready();
  return {};
}

void Communicator::log_ready() const {
  if (rank_ == 0) log_version();
  if (debug_level() < DebugLevel::kInfo) return;
  for (uint32_t channel = 0; nranks_ > 1 && channel < shared_.channels; ++channel) {
    const int next = (rank_ + 1) % nranks_;
    log_info(device_, "Channel " + channel_text(channel, shared_.channels) + " : " + std::to_string(rank_) + " -> " +
                          std::to_string(next) + " [send] via " + network_text(network_, shared_) + ", at first use");
  }
  char text[160];
  std::snprintf(text, sizeof text, "comm %p rank %d nranks %d cudaDev %d busId 0 commId 0x%llx - Init COMPLETE",
                static_cast<const void*>(this), rank_, nranks_, device_, static_cast<unsigned long long>(id_));
  log_info(device_, text);
}

Status Communicator::split(Communicator& parent, int color, int key, Communicator* child) {
  ORRERY_ASSIGN(const Settings settings, read_settings());
  const uint64_t split_number = parent.splits_++;
  SplitRecord own{.color = color, .key = key};
  Endpoints endpoints;
  if (child) {
    ORRERY_ASSIGN(endpoints, Endpoints::open(settings));
    own.address = endpoints.address;
  }
  std::vector<SplitRecord> all(static_cast<size_t>(parent.nranks_));
  Operation gather{.kind = OperationKind::kAllGather,
                   .send = &own,
                   .recv = all.data(),
                   .count = sizeof own,
                   .type = ncclInt8,
                   .stream = &own};
  gather.launch = StreamOrder::instance().begin_launch(gather.stream, 1);
  parent.enqueue({{gather}});
  if (StreamOrder::instance().synchronize(gather.stream) != ncclSuccess) {
    return Error{ErrorCode::kUnavailable, "ncclCommSplit could not reach all ranks: " + parent.failure_text()};
  }
  if (!child) return {};
  std::vector<std::tuple<int, int>> members;  // (key, parent's rank)
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].color == color) members.emplace_back(all[rank].key, static_cast<int>(rank));
  }
  std::sort(members.begin(), members.end());
  PeerTable table{.communicator_id = hash_words({parent.id_, split_number, static_cast<uint64_t>(color)}),
                  .shared = parent.shared_};
  for (const auto& [member_key, rank] : members) {
    if (rank == parent.rank_) child->rank_ = static_cast<int>(table.peers.size());
    table.peers.push_back(all[static_cast<size_t>(rank)].address);
  }
  child->nranks_ = static_cast<int>(members.size());
  return child->start(std::move(table), std::move(endpoints));
}

ncclResult_t Communicator::set_up(std::function<Status()> job) {
  const auto run = [this, owned = std::move(job)] {
    const Status status = owned();
    ncclResult_t result = ncclSuccess;
    if (!status) {
      result = report(status.error());
      std::lock_guard lock(mutex_);
      set_up_text_ = status.error().message;
    }
    set_up_state_.store(result, std::memory_order_release);
    return result;
  };
  if (blocking_) return run();
  set_up_thread_ = std::thread(run);
  return ncclInProgress;
}

ncclResult_t Communicator::state() const {
  const ncclResult_t set_up_result = set_up_state_.load(std::memory_order_acquire);
  return set_up_result != ncclSuccess ? set_up_result : proxy_->failure();
}

std::string Communicator::failure_text() const {
  if (set_up_state_.load(std::memory_order_acquire) == ncclSuccess) return proxy_->failure_text();
  std::lock_guard lock(mutex_);
  return set_up_text_;
}

ncclResult_t Communicator::finalize() {
  if (set_up_thread_.joinable()) set_up_thread_.join();
  finalized_ = true;
  return proxy_ ? proxy_->drain() : state();
}

ncclResult_t Communicator::destroy() {
  const ncclResult_t result = finalize();
  if (proxy_) proxy_->finish();
  return result;
}

void Communicator::abort() {
  if (set_up_thread_.joinable()) set_up_thread_.join();
  if (proxy_) proxy_->abort();
}

ncclRedOp_t Communicator::add_reduction(const Reduction& reduction, const void* device_scalar) {
  std::lock_guard lock(mutex_);
  auto place = std::find(reductions_.begin(), reductions_.end(), std::nullopt);
  if (place == reductions_.end()) place = reductions_.insert(place, std::nullopt);
  place->emplace(UserReduction{reduction, device_scalar});
  return static_cast<ncclRedOp_t>(ncclNumOps + (place - reductions_.begin()));
}

bool Communicator::remove_reduction(ncclRedOp_t op) {
  std::lock_guard lock(mutex_);
  const size_t index = static_cast<size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || index >= reductions_.size() || !reductions_[index]) return false;
  reductions_[index].reset();
  return true;
}

std::optional<Communicator::UserReduction> Communicator::find_reduction(ncclRedOp_t op) const {
  std::lock_guard lock(mutex_);
  const size_t index = static_cast<size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || index >= reductions_.size()) return std::nullopt;
  return reductions_[index];
}

}  // namespace orrery::hostnccl
