// What an ncclComm_t points to: identity, the proxy that moves its bytes, and its user-defined reductions.
// Calls on one communicator come from one thread at a time, as NCCL asks; queries and abort may come from another.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/lab/hostnccl/proxy.h"

namespace orrery::hostnccl {

class Communicator {
 public:
  Communicator(int rank, int nranks, int device, bool blocking);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Blocks until all ranks have joined and the proxy runs.
  Status connect(const ncclUniqueId& id);
  // Collective over `parent`, which outlives the call. `child` is null for NCCL_SPLIT_NOCOLOR; else it gets its rank
  // and size here.
  static Status split(Communicator& parent, int color, int key, Communicator* child);

  // Runs `job` (connect or split), now or, for a non-blocking communicator, in a thread of its own.
  ncclResult_t set_up(std::function<Status()> job);

  // ncclInProgress while being set up; the failure, if any; else ncclSuccess.
  ncclResult_t state() const;
  std::string failure_text() const;
  void enqueue(Work work) { proxy_->enqueue(std::move(work)); }
  ncclResult_t finalize();
  ncclResult_t destroy();  // the last use but for delete
  void abort();

  ncclRedOp_t add_reduction(const Reduction& reduction, const void* device_scalar);
  bool remove_reduction(ncclRedOp_t op);
  struct UserReduction {
    Reduction reduction;
    const void* device_scalar = nullptr;  // read when an operation starts
  };
  std::optional<UserReduction> find_reduction(ncclRedOp_t op) const;

  bool is_alive() const { return magic_ == kMagic; }
  bool is_finalized() const { return finalized_; }
  bool is_blocking() const { return blocking_; }
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  int device() const { return device_; }

 private:
  static constexpr uint64_t kMagic = 0x6f72726572796e63u;
  struct Endpoints;  // sockets that listen before the address exchange

  Status start(PeerTable table, Endpoints endpoints);
  void log_ready() const;

  uint64_t magic_ = kMagic;
  int rank_;
  int nranks_;
  int device_;
  bool blocking_;
  bool finalized_ = false;
  uint64_t id_ = 0;
  uint64_t splits_ = 0;
  SharedSettings shared_;
  uint32_t network_ = 0;  // see network.h
  std::atomic<ncclResult_t> set_up_state_{ncclInProgress};
  mutable std::mutex mutex_;
  std::string set_up_text_;                               // guarded by mutex_
  std::vector<std::optional<UserReduction>> reductions_;  // guarded by mutex_
  std::unique_ptr<Proxy> proxy_;
  std::thread set_up_thread_;
};

}  // namespace orrery::hostnccl
