#include "tools/lab/hostnccl/stream_order.h"

#include <sys/eventfd.h>

#include <utility>

namespace orrery::hostnccl {

StreamOrder& StreamOrder::instance() {
  static StreamOrder* const order = new StreamOrder;
  return *order;
}

uint64_t StreamOrder::begin_launch(void* stream, size_t operations) {
  std::lock_guard lock(mutex_);
  State& state = streams_[stream];
  state.outstanding.emplace(++state.launches, operations);
  return state.launches;
}

bool StreamOrder::may_start(void* stream, uint64_t launch, int wake_fd) {
  if (!stream) return true;
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return true;
  const auto& outstanding = found->second.outstanding;
  if (outstanding.empty() || outstanding.begin()->first >= launch) return true;
  waiting_.insert(wake_fd);
  return false;
}

void StreamOrder::complete(void* stream, uint64_t launch, ncclResult_t result) {
  std::lock_guard lock(mutex_);
  State& state = streams_[stream];
  if (result != ncclSuccess && state.error == ncclSuccess) state.error = result;
  const auto found = state.outstanding.find(launch);
  if (found != state.outstanding.end() && --found->second == 0) state.outstanding.erase(found);
  for (const int fd : waiting_) (void)eventfd_write(fd, 1);
  waiting_.clear();
  completed_.notify_all();
}

void StreamOrder::forget(int wake_fd) {
  std::lock_guard lock(mutex_);
  waiting_.erase(wake_fd);
}

ncclResult_t StreamOrder::synchronize(void* stream) {
  std::unique_lock lock(mutex_);
  const uint64_t last = streams_[stream].launches;
  completed_.wait(lock, [&] {
    const auto& outstanding = streams_[stream].outstanding;
    return outstanding.empty() || outstanding.begin()->first > last;
  });
  const ncclResult_t error = std::exchange(streams_[stream].error, ncclSuccess);
  if (streams_[stream].outstanding.empty()) streams_.erase(stream);
  return error;
}

}  // namespace orrery::hostnccl
