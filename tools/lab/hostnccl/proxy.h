// The thread that moves all bytes of one communicator. It sleeps in poll when there is nothing to move.
//
// Work is carried out in the order it was enqueued, one at a time, each after everything launched earlier on its
// streams. A failure ends the communicator: what is running and queued completes with the error, and so does everything
// enqueued later.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/lab/hostnccl/peer_monitor.h"
#include "tools/lab/hostnccl/point_to_point.h"
#include "tools/lab/hostnccl/ring.h"
#include "tools/lab/hostnccl/task.h"

namespace orrery::hostnccl {

// One collective, or the sends and receives of one group.
struct Work {
  std::vector<Operation> operations;
};

class Proxy {
 public:
  struct Parts {
    int rank = 0;
    int device = 0;
    PeerTable table;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<PeerMonitor> monitor;
  };
  static Result<std::unique_ptr<Proxy>> start(Parts parts);
  ~Proxy();  // as abort()

  void enqueue(Work work);
  // Waits until all that was enqueued has completed; ncclSuccess or the failure.
  ncclResult_t drain();
  // Ends the thread: in good order (after drain(); peers see no failure) or at once (what is unfinished completes with
  // an error).
  void finish();
  void abort();

  ncclResult_t failure() const { return failure_.load(std::memory_order_acquire); }
  std::string failure_text() const;

 private:
  explicit Proxy(Parts parts, UniqueFd wake);
  void run();
  void take_work();
  void advance();
  Result<std::unique_ptr<Task>> make_task(Work& work);
  void wait_for_events();
  void check_lost_peer();
  void complete_current();
  static void complete(const Work& work, ncclResult_t result);
  void fail(const Error& error);
  void wake();
  void join(bool orderly);

  Parts parts_;
  TaskContext context_;
  std::vector<SlotPool> slots_;  // use parts_.transport
  MessageCounters counters_;
  uint64_t collectives_ = 0;
  UniqueFd wake_fd_;
  std::vector<pollfd> extra_;
  Work current_;
  std::unique_ptr<Task> task_;  // set while current_ runs
  Deadline last_progress_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Work> queue_;    // guarded by mutex_
  size_t unfinished_ = 0;     // guarded by mutex_: queued and running
  std::string failure_text_;  // guarded by mutex_
  std::atomic<ncclResult_t> failure_{ncclSuccess};
  std::atomic<bool> stop_{false};
  bool orderly_ = false;  // set before stop_
  std::thread thread_;
};

}  // namespace orrery::hostnccl
